"""What one version of the state needs: of each store the newest archive before it, what that names, and changelogs.

Pure but for the archives, which are read to learn what they name. In format v2 a version is known by its unique id,
which the commit log has; each builds on the one that the batch before it committed.
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
"""Which versions, with their unique ids, a changelog says that it builds on; the second argument is its compression."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The files of one version of one store, by path below the store's directory.

    `sizes` has the bytes that each should have, None where nothing says it. `faults` says what is wrong with any, and
    `unknown` what can not be judged: the version is whole when there is neither.
    """

    store: StateStore
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """All files are there, with the lengths that they should have."""
        return not self.faults and not self.unknown


@dataclass(frozen=True, slots=True)
class Span:
    """The versions between two repartitions: from `first` on to before `end`, which is None where none came later.

    Version `first` is written by the repartition, for all partitions and as a whole. 0 where none is known.
    """

    first: int = 0
    end: int | None = None

    def later(self, store: StateStore) -> set[int]:
        """The versions of the span of which a store has files, but for that of the repartition itself."""
        return {one.version for one in store.files if self.first < one.version and one.version < (self.end or maxsize)}


class StateHistory:
    """The versions of all stores of a checkpoint, by its commit log, as long as they have as many partitions.

    `lineage` is asked where the log does not reach back as far as a version builds on others. `of_one` are the
    operators that have state in their first partition alone.
    """

    def __init__(
        self,
        stores: Sequence[StateStore],
        commits: Mapping[int, Commit],
        codec: str,
        lineage: Lineage,
        span: Span,
        of_one: frozenset[int],
    ) -> None:
        self._stores = stores
        self._by_task: dict[tuple[int, int], list[StateStore]] = {}
        for store in stores:
            self._by_task.setdefault((store.operator, store.partition), []).append(store)
        self._commits = commits
        self._codec = codec
        self._lineage = lineage
        self._span = span
        self._of_one = of_one

    def needed_after(self, batch: int) -> tuple[Needed, ...]:
        """What the state after a committed batch needs, store by store.

        CheckpointNotUnderstood where the commit has other state than operators and offsets tell of.
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
            has_ids = commit.has_ids or any(one.state_ids for one in self._commits.values())
            if has_ids and any(one.faults for one in found):
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
        """The stores of an operator's partition with their ids in a commit, which has them without their names.

        A store has a file of its id; ids that no store has a file of go in order to the stores that are left.
        """
        left = self._by_task.get(task, [])[:]
        pairs: dict[str, StateStore] = {}
        ids = commit.state_ids.get(task, ())
        for unique_id in ids:
            mine = next((store for store in left if _has(store, commit.version, unique_id)), None)
            if mine is not None:
                pairs[unique_id] = mine
                left.remove(mine)
        for unique_id in ids:
            if unique_id not in pairs and left:
                pairs[unique_id] = left.pop(0)
        return [(pairs[unique_id], unique_id) for unique_id in ids if unique_id in pairs]

    def _with_id(self, store: StateStore, version: int, unique_id: str) -> Needed:
        changelogs: list[VersionFile] = []
        ids = {version: unique_id}
        while version > 0:
            try:
                one = ids.get(version) or self._id_of(store, version, ids, changelogs)
            except CheckpointNotUnderstood as fault:
                return Needed(store, {}, (), (fault.what,))
            except CheckpointError as fault:  # the changelog that was asked for its lineage
                return Needed(store, {}, (str(fault),))
            if one is None:
                after = f" after {changelogs[-1].name}" if changelogs else ""
                return _missing(store, f"no archive before version {version + 1}{after} is there")
            archive, changelog = VersionFile(version, one, "zip"), VersionFile(version, one, "changelog")
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
        """Of a version that a later one builds on: by the commit log, else by its name alone, else by the lineage."""
        commit = self._commits.get(version - 1)
        if commit is not None:
            logged = dict(self._paired((store.operator, store.partition), commit))
            if store in logged:
                return logged[store]
        there = {one.id for one in store.files if one.version == version and one.id is not None}
        if len(there) > 1 and changelogs:  # a batch that was tried twice: one of them is nobody's
            ids.update(self._lineage(store.directory / changelogs[-1].name, self._codec))
            return ids.get(version)
        return next(iter(there), None)

    def _of_other_partitions(self, store: StateStore) -> list[StateStore]:
        """The same store of all partitions but the first."""
        return [one for one in self._stores if one.partition > 0 and (one.operator, one.name) == _kind(store)]

    def _is_of_one_partition(self, store: StateStore) -> bool:
        """Of an operator that has state in its first partition alone, and the others have written nothing.

        A repartition writes all partitions once, and only the first goes on.
        """
        can_be = store.operator in self._of_one and store.partition > 0
        return can_be and not any(self._span.later(one) for one in self._of_other_partitions(store))

    def _has_stopped_with_others(self, store: StateStore, version: int) -> bool:
        """All partitions but the first have files of one version, or of none: it is not known whether they had more.

        A repartition that the log has no more may have made the one. None is as of an operator of one partition.
        """
        versions = {one for other in self._of_other_partitions(store) for one in self._span.later(other)}
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
    """A fault, unless the version may lie in files of a kind that is not known."""
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
    sizes |= {one.name: None for one in changelogs}
    for path, expected in sizes.items():
        actual = store.sizes.get(path, store.immutable_sizes.get(path))
        if actual is None:
            faults.append(f"{path} is missing")
        elif actual == 0:
            faults.append(f"{path} is empty")
        elif expected is not None and actual != expected:
            faults.append(f"{path} has {actual} bytes instead of {expected}")
    return Needed(store, sizes, tuple(faults))
