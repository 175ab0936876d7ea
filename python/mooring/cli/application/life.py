"""Whether the application that a command asks still runs, also where the clocks of the two machines differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.cli.exits import CommandFailed
from mooring.cli.records import CommandRecords
from mooring.client.liveness import Life, Liveness, LivenessWatch

_LOOK_EVERY_SECONDS = 0.5
_NEXT_STATUS_WITHIN_SECONDS: Final = 13.0
"""An agent writes its status every ten seconds at least."""


class ApplicationLife:
    """Judges an application by its statuses, which the command reads one after the other.

    `asked` is the application that the user has named, or None. A named application may be about to start, so one that
    the status does not know is accepted. A named application may also be silent.
    """

    def __init__(
        self, records: CommandRecords, asked: str | None, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._records, self._asked, self._sleep = records, asked, sleep
        self._watch = LivenessWatch(lambda: time.time_ns() // 1_000_000)

    def liveness(self, status: Mapping[str, Any]) -> Liveness:
        """The liveness by the newest status, which the caller has just read."""
        return self._watch.liveness_of(status)

    def newest(self, status: dict[str, Any]) -> dict[str, Any]:
        """The status of an application that runs. If it is old, a newer one is awaited for some seconds.

        A status is old also where the clock of this machine is ahead. The same status is returned when none came.
        """
        looks = round(_NEXT_STATUS_WITHIN_SECONDS / _LOOK_EVERY_SECONDS)
        while looks > 0 and self._may_have_ended(status):
            self._sleep(_LOOK_EVERY_SECONDS)
            status = self._records.status_if_any() or status
            looks -= 1
        return status

    def begin(self, status: dict[str, Any]) -> dict[str, Any]:
        """The newest status, as by `newest`. CommandFailed as in `raise_if_ended`."""
        status = self.newest(status)
        self.raise_if_ended(status)
        return status

    def _may_have_ended(self, status: Mapping[str, Any]) -> bool:
        liveness = self.liveness(status)
        return liveness.life is Life.SILENT and liveness.is_given_up and self._asked is None

    def raise_if_ended(self, status: Mapping[str, Any]) -> None:
        """CommandFailed where no agent would act on a request: the application ended, or was silent for too long."""
        application, liveness = status.get("application"), self.liveness(status)
        if self._asked not in (None, application) or not liveness.is_given_up:
            return
        if liveness.life is Life.ENDED:
            raise CommandFailed(f"{application} {liveness.in_words}: nobody would act on this")
        if self._asked is None:
            raise CommandFailed(
                f"{application} is {liveness.in_words}: nobody would act on this; if it runs all the same, say"
                f" --deployment-id {application}"
            )

    def silence(self, status: Mapping[str, Any]) -> str:
        """A hint when the application has ended or is silent, else an empty text."""
        liveness = self.liveness(status)
        return "" if liveness.life is Life.ALIVE else f" ({liveness.in_words})"
