"""A job on which tests can make a host bad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.integration.support import answers
from tests.integration.support.file_fed_job import Load


class AtABadHost(Load):
    """A job whose tasks fail or wait on the host that is named in a marker file beside the input."""

    job = Path(__file__).parents[1] / "jobs" / "at_a_bad_host.py"
    query = "distinct"
    answer = staticmethod(answers.drop_duplicates)

    def marks(self, marker: str, host: str) -> Path:
        file = self.events / marker
        file.write_text(host)
        return file

    def runs_at(self) -> set[str]:
        """The locations where the tasks ran last."""
        return {task["location"] for task in self.status()["tasks"]}

    def processor_at(self, host: str) -> dict[str, Any]:
        return dict(next(found for found in self.status()["processors"] if found["location"] == host))

    def longest_batch(self, since: int) -> float:
        """The longest time from offsets to commit, in seconds, of the batches from `since` on."""
        times = [
            [(self.checkpoint / log / str(batch)).stat().st_mtime for log in ("offsets", "commits")]
            for batch in range(since, self.committed())
        ]
        return max(end - begin for begin, end in times)
