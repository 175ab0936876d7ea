"""Tells whether a table can not be read because its own files are damaged, or because its storage does not answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_FEWEST_FAILURES: Final = 3
_LEAST_SECONDS: Final = 60.0
"""So many failures in a row that name damage, and so long from the first to the last, count as certain damage.

A file that is just being written, or a service that answers nonsense for a moment, does not fail for so long.
"""

_FILE_NAME: Final = re.compile(r"\S*(/|\.(parquet|json|crc)(?![.\w]))\S*")
"""Matches paths and names of files. They say nothing about what is wrong."""

_DAMAGE: Final = re.compile(
    r"(?i:json\w*exception|end-of-input|malformed|corrupt|not a parquet file|checksum error|file_not_exist)"
    r"|\bDELTA_(CHECKPOINT_NON_EXIST_TABLE|CHECKPOINT_SNAPSHOT_MISMATCH|FILE_NOT_FOUND|FILE_NOT_FOUND_DETAILED"
    r"|LOG_FILE_NOT_FOUND|MISSING_PART_FILES|STATE_RECOVER_ERROR|TRUNCATED_TRANSACTION_LOG|TXN_LOG_FAILED_INTEGRITY"
    r"|VERSIONS_NOT_CONTIGUOUS)\b"
)
"""Matches an error which says that the table's own files are damaged or gone.

An error of the storage, such as a time-out or a refused permission, does not match. The names of Delta's errors are
exact: Delta has errors with similar names for settings. Source: Delta 4.4's `delta-error-classes.json`.
"""

_NEWER: Final = re.compile(r"(?i)protocol|unsupported|\bfeature")
"""Matches Delta's error for a table that a newer Delta has written. Such a table does not count as damaged."""


@dataclass
class _Failures:
    since: float
    count: int = 0


class DamageCounts:
    """Counts for each table the failures in a row that name damage."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, _Failures] = {}

    def is_damaged(self, table: str, said: str) -> bool:
        """Note a failure of a table, with its error. Whether the table is damaged for certain.

        A failure that does not name damage ends the row.
        """
        said = _FILE_NAME.sub("", said.replace(table, ""))
        if _DAMAGE.search(said) is None or _NEWER.search(said) is not None:
            self.forget(table)
            return False
        now = self._clock()
        failures = self._failures.setdefault(table, _Failures(now))
        failures.count += 1
        return failures.count >= _FEWEST_FAILURES and now - failures.since >= _LEAST_SECONDS

    def forget(self, table: str) -> None:
        """The table could be read, or is used no more."""
        self._failures.pop(table, None)
