"""The records in ZooKeeper for a client, which may know only a root that applications share."""

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
    """The records of the application at the root, or of the only application below it; empty where there is none.

    Where several applications share the root, reading raises InvalidSettingError with their names.
    """

    def __init__(self, settings: ZkSettings, report: Report) -> None:
        """Makes no connection yet."""
        super().__init__(report)
        self._settings, self._report = settings, report
        self._connection = ZkConnection(settings)
        self._found: ZkRecords | None = None

    def places(self) -> list[str]:
        """The addresses of the applications at the root. It is one address if the root is an application's own."""
        return [replace(self._settings, root=root).place for root in self._roots()]

    def job_models(self) -> dict[int, bytes]:
        """The texts of the saved job models, by version."""
        records = self._records()
        return records.job_models() if records else {}

    def task_locality(self) -> dict[str, str]:
        """Task name to the location where the task ran last."""
        records = self._records()
        return records.task_locality() if records else {}

    def status(self) -> bytes | None:
        """The text that `mooring status` shows, as it was written; None where there is none."""
        records = self._records()
        return records.status() if records else None

    def store(self) -> MetadataStore | None:
        """The application's part of the store; None before the application's first start."""
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
        """The root of the application; None before the application's first start."""
        roots = self._roots()
        if len(roots) > 1:
            names = ", ".join(replace(self._settings, root=root).place for root in roots)
            shared_by = f"is shared by {len(roots)} applications: name one of {names}"
            raise InvalidSettingError(f"metadata={self._settings.place} {shared_by}")
        return roots[0] if roots else None

    def _roots(self) -> list[str]:
        """The root itself, or the roots of the applications that share it."""
        shared = self._settings.root
        if self._is_application(shared):
            return [shared]
        return [root for root in self._below(shared) if self._is_application(root)]

    def _is_application(self, root: str) -> bool:
        """Whether drivers of an application were elected at this root."""
        (stat,) = self._connection.ask([lambda client: client.exists_async(f"{root}/leader/{GENERATION}")])
        return stat is not None and not isinstance(stat, Exception)

    def _below(self, path: str) -> list[str]:
        (names,) = self._connection.ask([lambda client: client.get_children_async(path)])
        return [] if isinstance(names, Exception) else [f"{path}/{name}" for name in sorted(names)]
