"""Drain: who asks for it, by a message in any metadata store, and who hears of it."""

from mooring.drain.monitor import DrainMonitor, MonitorState
from mooring.drain.notification import DrainMode, DrainNotification
from mooring.drain.order import drain_order
from mooring.drain.store import (
    NAMESPACE,
    StoredNotifications,
    cleanup,
    cleanup_all,
    read_drain_notifications,
    write_drain_notification,
)

__all__ = [
    "NAMESPACE",
    "DrainMode",
    "DrainMonitor",
    "DrainNotification",
    "MonitorState",
    "StoredNotifications",
    "cleanup",
    "cleanup_all",
    "drain_order",
    "read_drain_notifications",
    "write_drain_notification",
]
