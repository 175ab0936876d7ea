"""Lending: the tasks of an executor that serves them badly run on other executors for a while. Pure.

Spark does not report an executor that lives but is slow, or takes no tasks, so the runs of each batch are judged. A
task goes badly on its executor when a speculative attempt elsewhere finishes first, or when it takes `SLOW` times its
usual time and the query's tasks on other executors do not. The tasks of a query on an executor become a *loan* when

- one of them went badly, others waited for the executor in vain, and half of them ran elsewhere for that: each such
  batch costs the locality wait, and the state of most of these tasks is elsewhere already. That counts where none had
  waited in the batches before, and where the executor has lent no tasks in the last hour;
- or half of them went badly, and speculation was faster, in two of the last twelve batches;
- or half of them went badly in three batches in a row;
- or half of them failed there, and succeeded elsewhere, in two of the last twelve batches;
- or all of them waited for the executor in vain in two batches in a row, while it ran no other query.

During a loan the rows of these tasks begin with other executors. After a pause one task, the *trial*, runs on the
executor again: when it runs well the loan ends, otherwise the next trial comes after twice the pause. A loan also ends
when its tasks are as slow elsewhere, or when Spark can not place one task alone, as above a `coalesce`. Each hour
without a loan halves the pause of the next one. A new agent keeps the loans but learns the usual times again, so an
executor that is slow from the first batch on is not noticed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from mooring.agent.state.fleet import Fleet
from mooring.agent.state.loans import MIN_KNOWN_RUNS, BatchOutcome, Lending, Loan
from mooring.model.events import BatchEnded, TaskRun
from mooring.records.operator_overrides import LoanKey

SLOW: Final = 3.0
"""How many times its usual time a slow task takes."""

WELL: Final = 2.0
"""How many times its usual time a task may take in a trial that succeeds."""

LEAST_EXCESS_MS: Final = 500
"""How much longer than usual a slow task takes at least, in milliseconds."""

FIRST_TRIAL_MS: Final = 60_000
LAST_TRIAL_MS: Final = 3_600_000
"""The pause before the first trial, and the longest pause that doubling can give, in milliseconds."""

FORGIVEN_AFTER_MS: Final = 3_600_000
"""After each such time without a loan, the pause of the next loan is halved, in milliseconds."""

_MOST_RUNS: Final = 9  # usual runs of a task that are kept
_MOST_OUTCOMES: Final = 12  # batches whose outcomes are kept
_MOST_TIMES: Final = 6  # after so many doublings the pause grows no more
_BATCHES_WITHOUT_WAITING: Final = 3  # before the one that is enough for a loan
_BATCHES_TO_SETTLE: Final = 3  # after these, lent tasks have their state where they run
_BATCHES_TO_WAIT: Final = 3  # in which Spark may prefer another executor for the trial
_MS_TO_WAIT: Final = 60_000  # the least time for the same: a new plan may wait for executors
_BATCHES_TO_FETCH: Final = 2  # in which speculation may beat the trial, which fetches its state first


def lending_after(fleet: Fleet, event: BatchEnded) -> Lending:
    """What is known of task runs, and which tasks are lent, after a batch. `fleet` is the fleet before the batch."""
    query = fleet.queries.get(event.query)
    if query is None or not event.runs:
        return fleet.lending
    owner = _owners(fleet, event.query)
    before = fleet.lending
    without_tasks = [key for key in before.loans if key[0] == event.query and key[1] not in owner.values()]
    for key in without_tasks:
        before = _with_loan_ended(before, key)
    slowness = _slowness(before, event, query.ran_on)
    lending = _with_usual_runs(before, event, slowness, query.ran_on)
    for executor in sorted({executor for executor in owner.values() if executor not in fleet.withheld}):
        own = {p: event.runs[p] for p, id in owner.items() if id == executor and p in event.runs}
        key = (event.query, executor)
        if key in lending.loans:
            lending = _with_loan_after_batch(lending, key, own, event, slowness)
            lending = replace(lending, good_since_ms={**lending.good_since_ms, key: event.at_ms})
        elif own:
            lending = _with_executor_judged(fleet, lending, key, own, event, slowness)
    return lending


def describe_loan_changes(before: Fleet, after: Fleet) -> list[str]:
    """One log line for each loan that began or ended, while its query and its executor exist."""
    lines = []
    for (query, executor), loan in after.lending.loans.items():
        if (query, executor) not in before.lending.loans and query in after.queries and executor in after.executors:
            seconds = (loan.trial_at_ms - after.queries[query].ran_at_ms) // 1000
            lines.append(
                f"tasks of {after.queries[query].label} run elsewhere than on executor {executor} on "
                f"{after.executors[executor].location}: {loan.reason}; one of them tries it again in {seconds} s"
            )
    for query, executor in before.lending.loans:
        if (query, executor) not in after.lending.loans and query in after.queries and executor in after.executors:
            label, location = after.queries[query].label, after.executors[executor].location
            lines.append(f"tasks of {label} return to executor {executor} on {location}")
    return lines


def _owners(fleet: Fleet, query: str) -> dict[int, str]:
    """Maps each partition of the query to the living executor where the plan has its task."""
    executor_of, processor_of = fleet.executor_of, fleet.processor_of_task()
    running = fleet.queries[query]
    owners = {p: executor_of.get(processor_of.get(running.task_name(p), "")) for p in range(running.task_count)}
    return {p: executor for p, executor in owners.items() if executor is not None}


def _slowness(lending: Lending, event: BatchEnded, ran_on: Mapping[int, str]) -> dict[int, float]:
    """Maps each partition to its slowness: how many times its usual time the task took, compared with other executors.

    The usual time grows with the number of rows. The result is divided by the median of the query's tasks on other
    executors, so that a batch that is slow everywhere blames no executor. Only tasks with enough known runs, which ran
    where their state was, are compared. `ran_on` is the executor of each partition in the batch before.
    """
    times_usual: dict[int, float] = {}
    for p, run in event.runs.items():
        known = lending.runs.get((event.query, p), ())
        if len(known) >= MIN_KNOWN_RUNS and ran_on.get(p) == event.placements.get(p):
            usual_ms, usual_rows = median(ms for ms, _ in known), max(1.0, median(rows for _, rows in known))
            expected = max(1.0, usual_ms) * max(1.0, run.rows / usual_rows)
            times_usual[p] = run.milliseconds / expected if run.milliseconds - expected >= LEAST_EXCESS_MS else 1.0
    slowness = {}
    for p, times in times_usual.items():
        others = [times_usual[o] for o in times_usual if event.placements[o] != event.placements[p]]
        if others:
            slowness[p] = times / max(1.0, median(others))
    return slowness


def _with_usual_runs(
    lending: Lending, event: BatchEnded, slowness: Mapping[int, float], ran_on: Mapping[int, str]
) -> Lending:
    """The lending with the runs of this batch that were not slow, of tasks that ran where their state was."""
    usual = {
        (event.query, p): (*lending.runs.get((event.query, p), ()), (run.milliseconds, run.rows))[-_MOST_RUNS:]
        for p, run in event.runs.items()
        if slowness.get(p, 0.0) <= SLOW and ran_on.get(p) == event.placements.get(p)
    }
    return replace(lending, runs={**lending.runs, **usual})


def _with_executor_judged(
    fleet: Fleet,
    lending: Lending,
    key: LoanKey,
    own: Mapping[int, TaskRun],
    event: BatchEnded,
    slowness: Mapping[int, float],
) -> Lending:
    """The lending with one more outcome on an executor without a loan, and with a loan where the outcomes ask for one.

    `own` are the runs of the tasks that the plan has on the executor.
    """
    executor = key[1]
    ran_here = {p for p, id in fleet.queries[event.query].ran_on.items() if id == executor}
    outcome = _outcome(own, event, executor, slowness, ran_here, fleet.application.locality_wait_ms)
    if _may_have_run_other_queries(fleet, event, executor):
        outcome = replace(outcome, is_left=False, is_refused=False)  # the other query may have taken its slots
    outcomes = (*lending.outcomes.get(key, ()), outcome)[-_MOST_OUTCOMES:]
    lending = replace(lending, outcomes={**lending.outcomes, key: outcomes})
    lending = _with_times_forgiven(lending, key, event.at_ms)
    reason = _reason(outcomes, is_first=not lending.loan_counts.get(key, 0))
    lent_executors = {executor for query, executor in lending.loans if query == event.query}
    if not reason or not _may_lend_from_one_more(fleet, len(lent_executors)):
        return lending
    slow = median([slowness[p] for p in own if p in slowness] or [0.0])
    return _with_loan_started(lending, key, reason, slow if slow > SLOW else 0.0, event.at_ms)


def _outcome(
    own: Mapping[int, TaskRun],
    event: BatchEnded,
    executor: str,
    slowness: Mapping[int, float],
    ran_here: Collection[int],
    locality_wait_ms: int,
) -> BatchOutcome:
    """How the executor served its tasks `own` in this batch. Tasks that Spark wanted elsewhere do not count.

    `ran_here` are the partitions whose tasks ran on it in the batch before, and so had their state there.
    """
    failed = [p for p, run in own.items() if executor in run.failed_on and event.placements.get(p) != executor]
    wanted = [p for p, run in own.items() if run.wanted == executor or p in failed]
    if not wanted:
        return BatchOutcome()
    elsewhere = [p for p in wanted if event.placements.get(p) != executor]
    outrun = [p for p in elsewhere if own[p].is_speculative]
    slow = [p for p in wanted if p not in elsewhere and slowness.get(p, 0.0) > SLOW]
    # Without a locality wait, tasks do not wait for their executor: each runs wherever a slot is free.
    in_vain = [p for p in elsewhere if p not in outrun and p not in failed] if locality_wait_ms > 0 else []
    is_bad = bool(outrun or slow) and 2 * (len(outrun) + len(slow) + len(in_vain)) >= len(wanted)
    has_slow = bool(slow) or any(p in ran_here for p in outrun)
    is_left = has_slow and bool(in_vain) and 2 * (len(outrun) + len(in_vain)) >= len(wanted)
    is_refused = len(in_vain) == len(wanted)
    return BatchOutcome(
        is_bad=is_bad,
        is_outrun=is_bad and bool(outrun),
        is_left=is_left,
        is_refused=is_refused,
        has_failed=2 * len(failed) >= len(wanted),
        has_waited=bool(in_vain),
    )


def _may_have_run_other_queries(fleet: Fleet, event: BatchEnded, executor: str) -> bool:
    """Whether another query was in a batch during this batch, and may have had tasks on the executor.

    It may have had some when its last batch ran there, or when no batch of it has ended yet.
    """
    began_at_ms = event.at_ms - event.milliseconds
    return any(
        (executor in other.ran_on.values() or not other.ran_on)
        and (other.is_in_a_batch or other.ran_at_ms >= began_at_ms)
        for id, other in fleet.queries.items()
        if id != event.query
    )


def _reason(outcomes: Sequence[BatchOutcome], is_first: bool) -> str:
    """Why the executor's tasks are to be lent, in words for the log; empty when they are not.

    `is_first`: the executor has lent no tasks of the query in the last hour.
    """
    has_waited_before = any(outcome.has_waited for outcome in outcomes[-1 - _BATCHES_WITHOUT_WAITING : -1])
    if is_first and outcomes[-1].is_left and not has_waited_before:
        return "one was slow there, others waited for it in vain, and half of them ran elsewhere"
    if sum(outcome.is_outrun for outcome in outcomes) >= 2:
        return "other executors were faster, by speculation, in two of the last twelve batches"
    if sum(outcome.has_failed for outcome in outcomes) >= 2:
        return "they failed there and went well elsewhere, in two of the last twelve batches"
    if len(outcomes) >= 3 and all(outcome.is_bad for outcome in outcomes[-3:]):
        return f"they take more than {SLOW:g} times as long there as they did, in three batches, and others do not"
    if len(outcomes) >= 2 and all(outcome.is_refused for outcome in outcomes[-2:]):
        return "it took none of them, in two batches"
    return ""


def _may_lend_from_one_more(fleet: Fleet, lent_executors: int) -> bool:
    """Whether at least half of the executors that get tasks keep those of the query after one more loan."""
    usable = len(fleet.executors.keys() - fleet.withheld.keys())
    return 2 * (lent_executors + 1) <= usable


def _with_loan_started(lending: Lending, key: LoanKey, reason: str, slowness: float, now_ms: int) -> Lending:
    """The lending with a new loan. `slowness` is 0 when the tasks were not lent for being slow."""
    times = lending.loan_counts.get(key, 0)
    return replace(
        _with_loan(lending, key, Loan(reason, now_ms + _pause_ms(times), slowness)),
        loan_counts={**lending.loan_counts, key: min(times + 1, _MOST_TIMES)},
        outcomes={other: outcomes for other, outcomes in lending.outcomes.items() if other != key},
    )


def _with_times_forgiven(lending: Lending, key: LoanKey, now_ms: int) -> Lending:
    """The lending with one loan or failed trial fewer counted, after each hour without a loan."""
    times, since_ms = lending.loan_counts.get(key, 0), lending.good_since_ms.get(key)
    if not times or (since_ms is not None and now_ms < since_ms + FORGIVEN_AFTER_MS):
        return lending
    left = times if since_ms is None else times - 1
    return replace(
        lending, loan_counts={**lending.loan_counts, key: left}, good_since_ms={**lending.good_since_ms, key: now_ms}
    )


def _pause_ms(times: int) -> int:
    """The pause before a trial, after so many loans and failed trials, in milliseconds."""
    return int(min(FIRST_TRIAL_MS * 2 ** min(times, _MOST_TIMES), LAST_TRIAL_MS))


def _with_loan_after_batch(
    lending: Lending, key: LoanKey, own: Mapping[int, TaskRun], event: BatchEnded, slowness: Mapping[int, float]
) -> Lending:
    """The lending with a loan after one more batch: the loan goes on or ends, its trial starts or is judged."""
    loan = replace(lending.loans[key], batches=lending.loans[key].batches + 1)
    if _is_as_slow_elsewhere(loan, key, own, event, slowness):
        tasks = {(key[0], p) for p in own}
        usual = {task: runs for task, runs in lending.runs.items() if task not in tasks}
        return _with_loan_ended(replace(lending, runs=usual), key)
    if loan.trial >= 0 and loan.trial not in own:  # the plan has moved the trial's task away: another one will try
        loan = replace(loan, trial=-1)
    if loan.trial < 0:
        return _with_trial_started(lending, key, loan, own, event)
    return _with_trial_judged(lending, key, loan, own[loan.trial], event, slowness)


def _is_as_slow_elsewhere(
    loan: Loan, key: LoanKey, own: Mapping[int, TaskRun], event: BatchEnded, slowness: Mapping[int, float]
) -> bool:
    """Whether the lent tasks are more than half as slow elsewhere, once settled: the executor is not the cause then."""
    if not loan.slowness or loan.batches != _BATCHES_TO_SETTLE:
        return False
    lent = [slowness[p] for p in own if p != loan.trial and p in slowness and event.placements[p] != key[1]]
    return bool(lent) and median(lent) > loan.slowness / 2


def _with_trial_started(
    lending: Lending, key: LoanKey, loan: Loan, own: Mapping[int, TaskRun], event: BatchEnded
) -> Lending:
    """The lending with a trial when its time has come. The loan ends when Spark can place no task alone."""
    if own and event.at_ms >= loan.trial_at_ms and loan.batches >= 0:
        placeable = own.keys() - event.not_placed
        if not placeable:
            return _with_loan_ended(lending, key)
        loan = replace(loan, trial=min(placeable), trial_at_ms=event.at_ms, passed=0, outrun=0, waited=0)
    return _with_loan(lending, key, loan)


def _with_trial_judged(
    lending: Lending, key: LoanKey, loan: Loan, run: TaskRun, event: BatchEnded, slowness: Mapping[int, float]
) -> Lending:
    """The lending after a batch of the trial: the trial waits, continues or fails, or the loan ends.

    The trial succeeds when it runs well in two batches: in the first it fetches its state.
    """
    executor = key[1]
    if run.wanted != executor:  # the batch began before the trial's plan, or Spark preferred another executor
        loan = replace(loan, waited=loan.waited + 1)
        has_waited = loan.waited >= _BATCHES_TO_WAIT and event.at_ms >= loan.trial_at_ms + _MS_TO_WAIT
        return _with_loan_ended(lending, key) if has_waited else _with_loan(lending, key, loan)
    is_elsewhere = event.placements.get(loan.trial) != executor
    if is_elsewhere and run.is_speculative and not loan.passed and loan.outrun < _BATCHES_TO_FETCH:
        return _with_loan(lending, key, replace(loan, outrun=loan.outrun + 1))
    if is_elsewhere or slowness.get(loan.trial, 0.0) > WELL:
        return _with_trial_failed(lending, key, loan, event.at_ms)
    return _with_loan_ended(lending, key) if loan.passed else _with_loan(lending, key, replace(loan, passed=1))


def _with_trial_failed(lending: Lending, key: LoanKey, loan: Loan, now_ms: int) -> Lending:
    """The lending with no trial now and the next one after a longer pause."""
    times = lending.loan_counts.get(key, 0)
    later = replace(loan, trial=-1, trial_at_ms=now_ms + _pause_ms(times))
    return replace(
        _with_loan(lending, key, later), loan_counts={**lending.loan_counts, key: min(times + 1, _MOST_TIMES)}
    )


def _with_loan(lending: Lending, key: LoanKey, loan: Loan) -> Lending:
    """The lending with this loan added or replaced."""
    return replace(lending, loans={**lending.loans, key: loan})


def _with_loan_ended(lending: Lending, key: LoanKey) -> Lending:
    """The lending without this loan."""
    return replace(lending, loans={other: loan for other, loan in lending.loans.items() if other != key})
