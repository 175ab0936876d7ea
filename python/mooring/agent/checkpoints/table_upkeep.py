"""Removes old rows from a catalogue's table, merges its small files, and deletes files that it no longer uses."""

from __future__ import annotations

import time
from typing import Final, Protocol

from mooring.catalogue.rows import BATCHES_IN_PARTITION, TABLE_PARTITION_COLUMN

_MANY_BATCHES: Final = 1000
"""Full partitions of the table are compacted where more batches than this are kept."""

_PARTITIONS_AT_ONCE: Final = 5
"""How many partitions of the table are removed or compacted together. Each time takes Spark a second or more."""

_VACUUM_EVERY_SECONDS: Final = 12 * 3600.0
"""A search for unused files begins at least so long after the last one, and only after a removal or a compaction.

Delta keeps unused files for a day more.
"""

_TIDY_RETRY_SECONDS: Final = 600.0
"""How long after a failure the partitions of a query are not removed or compacted."""


class TidiedTables(Protocol):
    """What the upkeep does to tables; `mooring.spark.delta.DeltaTables` is the real class."""

    def remove(self, table: str, where: str) -> None:
        """Remove the rows for which `where` holds."""

    def compact(self, table: str, where: str) -> None:
        """Merge small files in the partitions for which `where` holds."""

    def vacuum(self, table: str) -> None:
        """Delete files that the table has not used for a day."""


class TableUpkeep:
    """The upkeep of one query's rows. `first_hundred` is the first partition of the table that has rows of the query.

    In a shared table only the rows of the query are touched, and unused files stay.
    """

    def __init__(self, tables: TidiedTables, table: str, query: str, retained_batches: int, is_shared: bool) -> None:
        self._tables, self._table, self._query = tables, table, query
        self._retained, self._is_shared = retained_batches, is_shared
        self.first_hundred = 0
        self._compacted_up_to: int | None = None  # the first partition that is not compacted yet
        self._again_at = 0.0
        self._vacuumed_again_at = 0.0

    def tidy(self, newest: int) -> None:
        """Remove partitions of batches that are no longer to be kept, and compact full partitions.

        A failure raises, and the next attempt comes after `_TIDY_RETRY_SECONDS`. The owner of a shared table may forbid
        the removal and the compaction.
        """
        now = time.monotonic()
        if now < self._again_at:
            return
        self._again_at = now + _TIDY_RETRY_SECONDS
        hundred = newest // BATCHES_IN_PARTITION
        has_compacted, has_removed = self._compact_full(hundred), self._remove_old(newest)
        if (has_compacted or has_removed) and not self._is_shared and now >= self._vacuumed_again_at:
            self._vacuumed_again_at = now + _VACUUM_EVERY_SECONDS
            self._tables.vacuum(self._table)
        self._again_at = 0.0

    def _compact_full(self, hundred: int) -> bool:
        """Compact the partitions before this one. Whether it was done."""
        first = hundred - _PARTITIONS_AT_ONCE if self._compacted_up_to is None else self._compacted_up_to
        if self._retained <= _MANY_BATCHES or hundred < first + _PARTITIONS_AT_ONCE:
            return False
        column = TABLE_PARTITION_COLUMN
        self._tables.compact(self._table, f"{column} >= {first} AND {column} < {hundred}")
        self._compacted_up_to = hundred
        return True

    def _remove_old(self, newest: int) -> bool:
        """Remove the partitions that are older than what is retained. Whether it was done."""
        wanted = max(0, newest + 1 - self._retained) // BATCHES_IN_PARTITION
        if wanted < self.first_hundred + _PARTITIONS_AT_ONCE:
            return False
        old = f"{TABLE_PARTITION_COLUMN} < {wanted}"  # whole partitions are removed without reading a file
        self._tables.remove(self._table, f"query = '{self._query}' AND {old}" if self._is_shared else old)
        self.first_hundred = wanted
        return True
