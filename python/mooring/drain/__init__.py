"""Drain: notifications in any metadata store, a monitor that reads them, and the order of queries."""

from mooring.drain.monitor import DrainMonitor, MonitorState
from mooring.drain.notification import DrainMode, DrainNotification, StopMode
from mooring.drain.order import drain_order, parse_order
from mooring.drain.queries import RunningQuery, places
from mooring.drain.store import (
    NAMESPACE,
    StoredNotifications,
    cleanup,
    cleanup_all,
    read_drain_notifications,
    remove_notifications,
    write_drain_notification,
)
from mooring.spark.draining import is_draining

__all__ = [
    "NAMESPACE",
    "DrainMode",
    "DrainMonitor",
    "DrainNotification",
    "MonitorState",
    "RunningQuery",
    "StopMode",
    "StoredNotifications",
    "cleanup",
    "cleanup_all",
    "drain_order",
    "is_draining",
    "parse_order",
    "places",
    "read_drain_notifications",
    "remove_notifications",
    "write_drain_notification",
]
