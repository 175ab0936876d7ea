"""Tasks that are lent, as values: `mooring.agent.planning.lending` says when they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mooring.records.operator_overrides import KeptLoan, Key

LEAST_KNOWN: Final = 4  # runs of a task before it is judged by them
_BATCHES_TO_LEARN: Final = LEAST_KNOWN + 1  # after which a new agent can tell what is usual


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the tasks that the plan has on an executor went in one batch."""

    is_bad: bool = False
    is_outrun: bool = False
    is_refused: bool = False
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class Loan:
    """Why the tasks of a query on an executor are lent, until when no trial is made, and how slow they were.

    `slowness` is 0 where it was not time that told. `trial` is the partition that tries the executor, -1 for none; it
    went well in `passed` batches, was outrun by speculation in `outrun` ones, and was not wanted there in `waited`
    ones. Once there is one, `trial_at_ms` is when it began. `batches` have ended since the loan began; below 0 a new
    agent learns what is usual, and no trial is made.
    """

    reason: str
    trial_at_ms: int
    slowness: float = 0.0
    batches: int = 0
    trial: int = -1
    passed: int = 0
    outrun: int = 0
    waited: int = 0


@dataclass(frozen=True, slots=True)
class Lending:
    """What the last batches tell. `runs` maps query and partition to milliseconds and rows of its last usual runs.

    `verdicts` are those of the last batches, `times` counts the loans and failed trials there were, less one for
    each hour without; `well_since` is when the last loan, or the last such hour, was over. `loans` are those that are.
    """

    runs: Mapping[tuple[str, int], tuple[tuple[int, int], ...]] = field(default_factory=dict)
    verdicts: Mapping[Key, tuple[Verdict, ...]] = field(default_factory=dict)
    times: Mapping[Key, int] = field(default_factory=dict)
    well_since: Mapping[Key, int] = field(default_factory=dict)
    loans: Mapping[Key, Loan] = field(default_factory=dict)

    def without_query(self, query: str) -> Lending:
        """After the end of a query's run."""
        return Lending(
            {key: runs for key, runs in self.runs.items() if key[0] != query},
            {key: past for key, past in self.verdicts.items() if key[0] != query},
            {key: count for key, count in self.times.items() if key[0] != query},
            {key: at_ms for key, at_ms in self.well_since.items() if key[0] != query},
            {key: loan for key, loan in self.loans.items() if key[0] != query},
        )

    def without_executor(self, executor: str) -> Lending:
        """After the loss of an executor."""
        return replace(
            self,
            verdicts={key: past for key, past in self.verdicts.items() if key[1] != executor},
            times={key: count for key, count in self.times.items() if key[1] != executor},
            well_since={key: at_ms for key, at_ms in self.well_since.items() if key[1] != executor},
            loans={key: loan for key, loan in self.loans.items() if key[1] != executor},
        )

    @property
    def kept(self) -> dict[Key, KeptLoan]:
        """The loans as a new agent takes them over."""
        return {
            key: KeptLoan(loan.reason, loan.trial_at_ms, self.times.get(key, 1)) for key, loan in self.loans.items()
        }

    def with_kept(self, kept: Mapping[Key, KeptLoan]) -> Lending:
        """With the loans of the agent before this one, whose trials wait until it is known what is usual."""
        loans = {key: Loan(old.reason, old.trial_at_ms, batches=-_BATCHES_TO_LEARN) for key, old in kept.items()}
        times = {key: old.times for key, old in kept.items()}
        return replace(self, loans={**loans, **self.loans}, times={**times, **self.times})

    def is_lent(self, query: str, partition: int, executor: str) -> bool:
        """Whether this task, which the plan has on this executor, is to run elsewhere."""
        loan = self.loans.get((query, executor))
        return loan is not None and loan.trial != partition
