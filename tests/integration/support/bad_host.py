"""A job of which a host can be made bad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.integration.support import answers
from tests.integration.support.file_fed_job import Load


class AtABadHost(Load):
    """Its tasks fail, or are held, at the host that a marker beside the input names."""

    job = Path(__file__).parents[1] / "jobs" / "at_a_bad_host.py"
    query = "distinct"
    answer = staticmethod(answers.drop_duplicates)

    def marks(self, marker: str, host: str) -> Path:
        file = self.events / marker
        file.write_text(host)
        return file

    def runs_at(self) -> set[str]:
        """Where the tasks ran last."""
        return {one["location"] for one in self.status()["tasks"]}

    def processor_at(self, host: str) -> dict[str, Any]:
        return dict(next(one for one in self.status()["processors"] if one["location"] == host))

    def longest_batch(self, since: int) -> float:
        """From offsets to commit, in seconds, of the batches from this one on."""
        times = [
            [(self.checkpoint / log / str(batch)).stat().st_mtime for log in ("offsets", "commits")]
            for batch in range(since, self.committed())
        ]
        return max(end - begin for begin, end in times)
