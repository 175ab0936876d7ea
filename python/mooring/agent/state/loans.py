"""Tasks that are lent to other executors, as values. `mooring.agent.planning.lending` decides which tasks are lent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mooring.records.operator_overrides import LoanKey, SavedLoan

MIN_KNOWN_RUNS: Final = 4
"""How many runs of a task the agent must know before it compares a run with them."""

_BATCHES_TO_LEARN: Final = MIN_KNOWN_RUNS + 1
"""After so many batches a new agent knows the usual times."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """How the tasks that the plan has on one executor went in one batch.

    `is_left`: some went badly, others waited in vain, and half of the tasks ran elsewhere. `has_waited`: some waited in
    vain.
    """

    is_bad: bool = False
    is_outrun: bool = False
    is_left: bool = False
    is_refused: bool = False
    has_failed: bool = False
    has_waited: bool = False


@dataclass(frozen=True, slots=True)
class Loan:
    """The tasks of a query on an executor, which run elsewhere for a `reason`.

    No trial begins before `trial_at_ms`; during a trial it is when the trial began. `slowness` is 0 where the times of
    the tasks were not the reason. `trial` is the partition that tries the executor, -1 for none. The trial succeeded in
    `passed` batches. In `outrun` batches a speculative attempt finished first. In `waited` batches the task did not get
    to the executor. `batches` have ended since the loan began. The number is below 0 while a new agent learns the usual
    times; no trial begins then.
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
    """The loans, and what the last batches show.

    `runs` maps query and partition to the milliseconds and rows of its last usual runs. `outcomes` are those of the
    last batches, by query and executor. `loan_counts` counts loans and failed trials; each hour without a loan takes
    one away. `good_since_ms` is when the last loan, or the last such hour, ended.
    """

    runs: Mapping[tuple[str, int], tuple[tuple[int, int], ...]] = field(default_factory=dict)
    outcomes: Mapping[LoanKey, tuple[BatchOutcome, ...]] = field(default_factory=dict)
    loan_counts: Mapping[LoanKey, int] = field(default_factory=dict)
    good_since_ms: Mapping[LoanKey, int] = field(default_factory=dict)
    loans: Mapping[LoanKey, Loan] = field(default_factory=dict)

    def without_query(self, query: str) -> Lending:
        """After the end of a query's run."""
        return Lending(
            {key: runs for key, runs in self.runs.items() if key[0] != query},
            {key: outcomes for key, outcomes in self.outcomes.items() if key[0] != query},
            {key: count for key, count in self.loan_counts.items() if key[0] != query},
            {key: at_ms for key, at_ms in self.good_since_ms.items() if key[0] != query},
            {key: loan for key, loan in self.loans.items() if key[0] != query},
        )

    def without_executor(self, executor: str) -> Lending:
        """After the loss of an executor."""
        return replace(
            self,
            outcomes={key: outcomes for key, outcomes in self.outcomes.items() if key[1] != executor},
            loan_counts={key: count for key, count in self.loan_counts.items() if key[1] != executor},
            good_since_ms={key: at_ms for key, at_ms in self.good_since_ms.items() if key[1] != executor},
            loans={key: loan for key, loan in self.loans.items() if key[1] != executor},
        )

    @property
    def loans_to_save(self) -> dict[LoanKey, SavedLoan]:
        """The loans in the form that a new agent reads."""
        return {
            key: SavedLoan(loan.reason, loan.trial_at_ms, self.loan_counts.get(key, 1))
            for key, loan in self.loans.items()
        }

    def with_saved_loans(self, saved: Mapping[LoanKey, SavedLoan]) -> Lending:
        """With the loans of an earlier agent. Their trials wait until this agent knows the usual times."""
        loans = {key: Loan(loan.reason, loan.trial_at_ms, batches=-_BATCHES_TO_LEARN) for key, loan in saved.items()}
        counts = {key: loan.loan_count for key, loan in saved.items()}
        return replace(self, loans={**loans, **self.loans}, loan_counts={**counts, **self.loan_counts})

    def is_lent(self, query: str, partition: int, executor: str) -> bool:
        """Whether this task, which the plan has on this executor, is to run elsewhere."""
        loan = self.loans.get((query, executor))
        return loan is not None and loan.trial != partition
