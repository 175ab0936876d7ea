"""The records in ZooKeeper as a client reads them, who may know no more than the root that applications share."""

from __future__ import annotations

from dataclasses import replace

from mooring.coordination.zookeeper.term import GENERATION
from mooring.errors import InvalidSettingError
from mooring.metadata.store import MetadataStore, Report
from mooring.metadata.zookeeper import ZkConnection, ZkMetadataStore
from mooring.metadata.zookeeper.options import ZkSettings
from mooring.records.records import ReadRecords
from mooring.records.zookeeper import ZkRecords


class ZkClientRecords(ReadRecords):
    """The records of the application at the root, or of the only one below it; nothing before there is one.

    Reading raises InvalidSettingError, with their names, where several applications share the root.
    """

    def __init__(self, settings: ZkSettings, report: Report) -> None:
        """Connects to nobody yet."""
        super().__init__(report)
        self._settings, self._report = settings, report
        self._connection = ZkConnection(settings)
        self._found: ZkRecords | None = None

    def places(self) -> list[str]:
        """The addresses of the applications that have begun at the root: one when it is their own."""
        return [replace(self._settings, root=root).place for root in self._roots()]

    def job_models(self) -> dict[int, bytes]:
        """The texts of the job models that are kept, by version."""
        records = self._records()
        return records.job_models() if records else {}

    def task_locality(self) -> dict[str, str]:
        """Task name to the location where it ran last."""
        records = self._records()
        return records.task_locality() if records else {}

    def status(self) -> bytes | None:
        """What `mooring status` shows, as it was written; None when there is none."""
        records = self._records()
        return records.status() if records else None

    def store(self) -> MetadataStore | None:
        """The part of the store that is the application's; None before it has begun for the first time."""
        records = self._records()
        return records.store() if records else None

    def close(self) -> None:
        """End the session."""
        if self._found is not None:
            self._found.close()
        self._connection.close()

    def _records(self) -> ZkRecords | None:
        if self._found is None:
            root = self._root()
            if root is not None:
                settings = replace(self._settings, root=root)
                store = ZkMetadataStore(settings, report=self._report)
                self._found = ZkRecords(store, self._report, self._connection, root)
        return self._found

    def _root(self) -> str | None:
        """The root of the application, once it has begun for the first time."""
        roots = self._roots()
        if len(roots) > 1:
            names = ", ".join(replace(self._settings, root=root).place for root in roots)
            shared_by = f"is shared by {len(roots)} applications: name one of {names}"
            raise InvalidSettingError(f"metadata={self._settings.place} {shared_by}")
        return roots[0] if roots else None

    def _roots(self) -> list[str]:
        """The root itself, or those of the applications that share it."""
        shared = self._settings.root
        if self._is_application(shared):
            return [shared]
        return [root for root in self._below(shared) if self._is_application(root)]

    def _is_application(self, root: str) -> bool:
        """Whether its drivers have been elected here."""
        (stat,) = self._connection.ask([lambda client: client.exists_async(f"{root}/leader/{GENERATION}")])
        return stat is not None and not isinstance(stat, Exception)

    def _below(self, path: str) -> list[str]:
        (names,) = self._connection.ask([lambda client: client.get_children_async(path)])
        return [] if isinstance(names, Exception) else [f"{path}/{name}" for name in sorted(names)]
