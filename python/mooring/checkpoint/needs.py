"""Finds the files that one version of the state needs.

Of each store these are the newest archive up to that version, the files that the archive names, and the changelogs
after it. Archives are read to learn the names; all else is pure. In format v2 the commit log has a unique id for each
version, and each version builds on the one that the batch before it committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import maxsize

from mooring.checkpoint.logs import Commit
from mooring.checkpoint.state_files import StateStore, VersionFile
from mooring.errors import CheckpointError, CheckpointNotUnderstood

Lineage = Callable[[Path, str], Mapping[int, str]]
"""The versions, with their unique ids, on which a changelog builds. Arguments: the changelog and its compression."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The files of one version of one store, by path below the store's directory.

    `sizes` has the bytes that each file should have, None where no archive says it. `faults` are sentences on damage.
    `unknown` are sentences on what this program can not judge. The version is whole when both are empty. `bad_files`
    are the files that are missing, empty or of another length.
    """

    store: StateStore
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    bad_files: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """All files are there, with the lengths that they should have."""
        return not self.faults and not self.unknown


@dataclass(frozen=True, slots=True)
class Span:
    """The versions between two repartitions, from `first` up to but not including `end`.

    The earlier repartition writes version `first`, for all partitions and as a whole; `first` is 0 where no
    repartition is known. `end` is None where no later repartition came.
    """

    first: int = 0
    end: int | None = None

    def later(self, store: StateStore) -> set[int]:
        """The versions after `first` in the span of which a store has files."""
        return {
            file.version for file in store.files if self.first < file.version and file.version < (self.end or maxsize)
        }


class StateHistory:
    """The versions of all stores of a checkpoint, by its commit log, in a span with one number of partitions.

    `lineage` is called where a version builds on versions that are older than the commit log. The operators in
    `one_partition_operators` have state in their first partition alone.
    """

    def __init__(
        self,
        stores: Sequence[StateStore],
        commits: Mapping[int, Commit],
        codec: str,
        lineage: Lineage,
        span: Span,
        one_partition_operators: frozenset[int],
    ) -> None:
        self._stores = stores
        self._by_task: dict[tuple[int, int], list[StateStore]] = {}
        for store in stores:
            self._by_task.setdefault((store.operator, store.partition), []).append(store)
        self._commits = commits
        self._codec = codec
        self._lineage = lineage
        self._span = span
        self._one_partition_operators = one_partition_operators

    def needed_after(self, batch: int) -> tuple[Needed, ...]:
        """The files that the state after a committed batch needs, store by store.

        CheckpointNotUnderstood where the commit has another number of stores than the operators' descriptions have.
        """
        commit = self._commits[batch]
        for (operator, partition), ids in commit.state_ids.items():
            stores = self._by_task.get((operator, partition), [])
            if len(ids) != len(stores):
                raise CheckpointNotUnderstood(
                    f"the commit of batch {batch} has {len(ids)} stores of operator {operator}, partition {partition},"
                    f" where offsets and the operator's description have {len(stores)}"
                )
        if not commit.state_ids:
            found = tuple(self._without_ids(store, commit.version) for store in self._stores)
            has_ids = commit.has_ids or any(other.state_ids for other in self._commits.values())
            if has_ids and any(needed.faults for needed in found):
                raise CheckpointNotUnderstood(
                    f"the commit of batch {batch} does not say which versions its state has, as others do"
                )
            return found
        return tuple(
            self._with_id(store, commit.version, unique_id)
            for task in sorted(commit.state_ids)
            for store, unique_id in self._paired(task, commit)
        )

    def _paired(self, task: tuple[int, int], commit: Commit) -> list[tuple[StateStore, str]]:
        """The stores of an operator's partition, each with its id in a commit. A commit has ids without store names.

        An id belongs to the store that has a file of that id. Ids without a file go in order to the remaining stores.
        """
        left = self._by_task.get(task, [])[:]
        pairs: dict[str, StateStore] = {}
        ids = commit.state_ids.get(task, ())
        for unique_id in ids:
            owner = next((store for store in left if _has(store, commit.version, unique_id)), None)
            if owner is not None:
                pairs[unique_id] = owner
                left.remove(owner)
        for unique_id in ids:
            if unique_id not in pairs and left:
                pairs[unique_id] = left.pop(0)
        return [(pairs[unique_id], unique_id) for unique_id in ids if unique_id in pairs]

    def _with_id(self, store: StateStore, version: int, unique_id: str) -> Needed:
        changelogs: list[VersionFile] = []
        ids = {version: unique_id}
        while version > 0:
            try:
                id_here = ids.get(version) or self._id_of(store, version, ids, changelogs)
            except CheckpointNotUnderstood as fault:
                return Needed(store, {}, (), (fault.what,))
            except CheckpointError as fault:  # of the changelog whose lineage was read
                return Needed(store, {}, (str(fault),))
            if id_here is None:
                after = f" after {changelogs[-1].name}" if changelogs else ""
                return _missing(store, f"no archive before version {version + 1}{after} is there")
            archive, changelog = VersionFile(version, id_here, "zip"), VersionFile(version, id_here, "changelog")
            if archive in store.files:
                return _complete(store, archive, changelogs)
            changelogs.append(changelog)
            if changelog not in store.files:
                return _missing(store, f"neither {archive.name} nor {changelog.name} is there")
            version -= 1
        return _complete(store, None, changelogs)

    def _id_of(
        self, store: StateStore, version: int, ids: dict[int, str], changelogs: Sequence[VersionFile]
    ) -> str | None:
        """The id of a version on which a later version builds.

        It comes from the commit log, else from the only file of that version, else from the lineage of a changelog.
        """
        commit = self._commits.get(version - 1)
        if commit is not None:
            logged = dict(self._paired((store.operator, store.partition), commit))
            if store in logged:
                return logged[store]
        there = {file.id for file in store.files if file.version == version and file.id is not None}
        if len(there) > 1 and changelogs:  # the batch was tried twice, and one attempt was abandoned
            ids.update(self._lineage(store.directory / changelogs[-1].name, self._codec))
            return ids.get(version)
        return next(iter(there), None)

    def _of_other_partitions(self, store: StateStore) -> list[StateStore]:
        """The same store of all partitions but the first."""
        return [other for other in self._stores if other.partition > 0 and (other.operator, other.name) == _kind(store)]

    def _is_of_one_partition(self, store: StateStore) -> bool:
        """Whether the store belongs to an operator with state in its first partition alone, and is another partition.

        A repartition writes all partitions of such an operator once. After it only the first partition is written.
        """
        can_be = store.operator in self._one_partition_operators and store.partition > 0
        return can_be and not any(self._span.later(other) for other in self._of_other_partitions(store))

    def _has_stopped_with_others(self, store: StateStore, version: int) -> bool:
        """Whether all partitions but the first have files of one version, or of none: no damage can be told then.

        A repartition that is no longer in the log may have written the one version. Partitions without a version look
        like those of an operator with state in its first partition alone.
        """
        versions = {version for other in self._of_other_partitions(store) for version in self._span.later(other)}
        return store.partition > 0 and (len(versions) == 1 or (not versions and version != self._span.first))

    def _without_ids(self, store: StateStore, version: int) -> Needed:
        changelogs: list[VersionFile] = []
        if version != self._span.first and self._is_of_one_partition(store):
            return Needed(store)
        for earlier in range(version, 0, -1):
            archive, changelog = VersionFile(earlier, None, "zip"), VersionFile(earlier, None, "changelog")
            if archive in store.files:
                return _complete(store, archive, changelogs)
            if changelog not in store.files:
                missing = f"neither {archive.name} nor {changelog.name} is there"
                if self._has_stopped_with_others(store, version):
                    return Needed(store, {}, (), (f"{missing}, as in all partitions but the first",))
                return _missing(store, missing)
            changelogs.append(changelog)
        return _complete(store, None, changelogs)


def _kind(store: StateStore) -> tuple[int, str]:
    return store.operator, store.name


def _missing(store: StateStore, what: str) -> Needed:
    """The result for a missing file: a fault, or unknown where the store has files of an unknown kind."""
    if store.strangers:
        return Needed(store, {}, (), (f"{what}, but {store.strangers[0]}, of a kind that is not known",))
    return Needed(store, {}, (what,))


def _has(store: StateStore, version: int, unique_id: str) -> bool:
    return any(VersionFile(version, unique_id, kind) in store.files for kind in ("zip", "changelog"))


def _complete(store: StateStore, archive: VersionFile | None, changelogs: Sequence[VersionFile]) -> Needed:
    sizes: dict[str, int | None] = {}
    faults = []
    if archive is not None:
        sizes[archive.name] = None
        try:
            sizes |= store.archive(archive).needs
        except CheckpointNotUnderstood as fault:
            return Needed(store, {}, (), (fault.what,))
        except CheckpointError as fault:
            faults.append(str(fault))
    sizes |= {changelog.name: None for changelog in changelogs}
    bad = {}
    for path, expected in sizes.items():
        actual = store.sizes.get(path, store.immutable_sizes.get(path))
        if actual is None:
            bad[path] = "is missing"
        elif actual == 0:
            bad[path] = "is empty"
        elif expected is not None and actual != expected:
            bad[path] = f"has {actual} bytes instead of {expected}"
    faults += [f"{path} {what}" for path, what in bad.items()]
    return Needed(store, sizes, tuple(faults), bad_files=frozenset(bad))
