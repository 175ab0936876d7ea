"""Stores notifications in any metadata store: one key for each uuid, in a namespace of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mooring.drain.notification import DrainNotification
from mooring.errors import InvalidMessageError
from mooring.metadata import MetadataStore, NamespacedMetadataStore

NAMESPACE: Final = "samza-drain-v1"


@dataclass(frozen=True, slots=True)
class StoredNotifications:
    """All notifications at one moment, by uuid. `malformed` maps keys that can not be read to the reason."""

    notifications: Mapping[UUID, DrainNotification]
    malformed: Mapping[str, str]

    def of(self, run_id: str) -> list[DrainNotification]:
        """The notifications for this deployment, in the order of their uuids."""
        of_run = [notification for notification in self.notifications.values() if notification.run_id == run_id]
        return sorted(of_run, key=lambda notification: notification.uuid)


def write_drain_notification(store: MetadataStore, notification: DrainNotification) -> UUID:
    """Ask for a drain or a stop. When this returns, every reader sees it. Raises what the store raises.

    A notification that is written twice, with the same uuid, asks once.
    """
    notifications = _namespace(store)
    notifications.put(str(notification.uuid), notification.to_json().encode())
    notifications.flush()
    return notification.uuid


def read_drain_notifications(store: MetadataStore) -> StoredNotifications:
    """Every notification, of all deployments."""
    found: dict[UUID, DrainNotification] = {}
    malformed: dict[str, str] = {}
    for key, text in _namespace(store).all().items():
        try:
            notification = DrainNotification.from_json(text)
            if str(notification.uuid) != key:
                raise InvalidMessageError(f'uuid is "{notification.uuid}": expected "{key}", as in the key')
            found[notification.uuid] = notification
        except (InvalidMessageError, RecursionError) as fault:
            malformed[key] = str(fault)
    return StoredNotifications(found, malformed)


def remove_notifications(store: MetadataStore, uuids: Collection[UUID]) -> None:
    """Remove these notifications; a missing one is no error."""
    _remove(store, map(str, uuids))


def remove_malformed(store: MetadataStore, found: StoredNotifications) -> None:
    """Remove the notifications that could not be read."""
    if found.malformed:
        _remove(store, found.malformed)


def cleanup(store: MetadataStore, run_id: str) -> None:
    """Remove the notifications for one deployment; those for other deployments stay."""
    _remove(store, (str(notification.uuid) for notification in read_drain_notifications(store).of(run_id)))


def cleanup_all(store: MetadataStore) -> None:
    """Remove every notification, also those that can not be read."""
    _remove(store, _namespace(store).all())


def _remove(store: MetadataStore, keys: Iterable[str]) -> None:
    notifications = _namespace(store)
    for key in keys:
        notifications.delete(key)
    notifications.flush()


def _namespace(store: MetadataStore) -> NamespacedMetadataStore:
    return NamespacedMetadataStore(store, NAMESPACE)
