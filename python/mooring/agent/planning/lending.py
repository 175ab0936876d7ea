"""Tasks that are lent: they run elsewhere for a while, as their executor serves them badly though it lives.

Pure. Spark says nothing of an executor that has become slow, or that takes no tasks. What tells is how the tasks of
each batch went. A task goes badly on its executor when a speculative attempt elsewhere is done first, or when it takes
`SLOW` times as long there as it used to and the query's tasks on other executors do not. So does then a task that has
waited for it in vain. Each executor is judged by the query's tasks that the plan has there, in each batch:

- half of them went badly, and speculation won: in two of the last twelve batches;
- half of them went badly: in three batches in a row;
- half of them failed there, and not elsewhere: in two of the last twelve batches;
- all waited for it in vain and ran elsewhere: in two batches in a row. Not while it may run another query's tasks.

Then they are lent to the next executors of their rows. Later one task tries the executor again: that goes well, and the
others return; else the next trial is after twice the time. The first trial of a later loan waits as long; half as long
after each hour without one. Tasks that are as slow elsewhere return at once. Where the plan can not place one task
alone, as above a `coalesce`, all try it: the loan ends, and the next lasts twice as long.

A new agent takes over the loans. What is usual it learns anew, so an executor that is slow from then on is usual. So is
one on which a query starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from mooring.agent.state.fleet import Fleet
from mooring.agent.state.loans import LEAST_KNOWN, Lending, Loan, Verdict
from mooring.model.events import BatchEnded, TaskRun
from mooring.records.operator_overrides import Key

SLOW: Final = 3.0
"""How many times as long as usual a slow task takes."""

WELL: Final = 2.0
"""How many times as long as usual the task of a trial may take."""

LEAST_EXCESS_MS: Final = 500
"""A task that takes less than so much longer than usual is not slow."""

FIRST_TRIAL_MS: Final = 60_000
LAST_TRIAL_MS: Final = 3_600_000
"""The time before the first trial, and the most that it grows to by doubling."""

FORGIVEN_AFTER_MS: Final = 3_600_000
"""After each such time without a loan the first trial of a later one comes after half the time."""

_MOST_KNOWN: Final = 9
_MOST_JUDGED: Final = 12  # batches
_MOST_TIMES: Final = 6  # then the time before a trial grows no more
_BATCHES_TO_SETTLE: Final = 3  # after which lent tasks have their state where they run
_BATCHES_TO_WAIT: Final = 3  # for a batch that wants the trial on its executor
_BATCHES_TO_FETCH: Final = 2  # in which the trial may be outrun, as it has to fetch its state first
_MS_TO_WAIT: Final = 60_000  # at least, for the same: a new plan may wait for executors


def lending_after(fleet: Fleet, event: BatchEnded) -> Lending:
    """What is known, and lent, after a batch. `fleet` is as it was before."""
    query = fleet.queries.get(event.query)
    if query is None or not event.runs:
        return fleet.lending
    before, owner = fleet.lending, _owners(fleet, event.query)
    idle = [key for key in before.loans if key[0] == event.query and key[1] not in owner.values()]
    for key in idle:  # its tasks have gone to other executors
        before = _ended(before, key)
    slowness = _slowness(before, event, query.ran_on)
    lending = _with_runs(before, event, slowness, query.ran_on)
    there = {executor for executor in owner.values() if executor not in fleet.withheld}
    for executor in sorted(there):
        own = {p: event.runs[p] for p, id in owner.items() if id == executor and p in event.runs}
        key = (event.query, executor)
        if key in lending.loans:
            lending = _after_a_batch(lending, key, own, event, slowness)
            lending = replace(lending, well_since={**lending.well_since, key: event.at_ms})
        elif own:
            verdict = _verdict(own, event, executor, slowness, fleet.locality_wait_ms)
            if _may_have_run_others(fleet, event, executor):  # then there was no slot for its own
                verdict = replace(verdict, is_refused=False)
            past = (*lending.verdicts.get(key, ()), verdict)[-_MOST_JUDGED:]
            lending = replace(lending, verdicts={**lending.verdicts, key: past})
            lending = _forgiven(lending, key, event.at_ms)
            reason = _reason(past)
            lent = {executor for query, executor in lending.loans if query == event.query}
            if reason and _may_be_lent(fleet, len(lent)):
                slow = median([slowness[p] for p in own if p in slowness] or [0.0])
                lending = _lent(lending, key, reason, slow if slow > SLOW else 0.0, event.at_ms)
    return lending


def describe_loan_changes(before: Fleet, after: Fleet) -> list[str]:
    """A line for each loan that began, and for each that ended while query and executor are there."""
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
            label, place = after.queries[query].label, after.executors[executor].location
            lines.append(f"tasks of {label} return to executor {executor} on {place}")
    return lines


def _owners(fleet: Fleet, query: str) -> dict[int, str]:
    """Partition to the living executor where the plan has it."""
    executor_of, processor_of = fleet.executor_of, fleet.processor_of_task()
    running = fleet.queries[query]
    owners = {p: executor_of.get(processor_of.get(running.task_name(p), "")) for p in range(running.task_count)}
    return {p: executor for p, executor in owners.items() if executor is not None}


def _slowness(lending: Lending, event: BatchEnded, ran_on: Mapping[int, str]) -> dict[int, float]:
    """Partition to how many times as long as usual its task took, against the query's tasks on other executors.

    Of those that are known, and had their state where they ran. A task of more rows may take longer.
    """
    own: dict[int, float] = {}
    for p, run in event.runs.items():
        known = lending.runs.get((event.query, p), ())
        if len(known) >= LEAST_KNOWN and ran_on.get(p) == event.placements.get(p):
            usual_ms, usual_rows = median(ms for ms, _ in known), max(1.0, median(rows for _, rows in known))
            expected = max(1.0, usual_ms) * max(1.0, run.rows / usual_rows)
            own[p] = run.milliseconds / expected if run.milliseconds - expected >= LEAST_EXCESS_MS else 1.0
    found = {}
    for p, slowness in own.items():
        others = [own[o] for o in own if event.placements[o] != event.placements[p]]
        if others:
            found[p] = slowness / max(1.0, median(others))
    return found


def _with_runs(
    lending: Lending, event: BatchEnded, slowness: Mapping[int, float], ran_on: Mapping[int, str]
) -> Lending:
    """With the runs of this batch that were as usual, where the task's state was."""
    usual = {
        (event.query, p): (*lending.runs.get((event.query, p), ()), (run.milliseconds, run.rows))[-_MOST_KNOWN:]
        for p, run in event.runs.items()
        if slowness.get(p, 0.0) <= SLOW and ran_on.get(p) == event.placements.get(p)
    }
    return replace(lending, runs={**lending.runs, **usual})


def _verdict(
    own: Mapping[int, TaskRun], event: BatchEnded, executor: str, slowness: Mapping[int, float], locality_wait_ms: int
) -> Verdict:
    failed = [p for p, run in own.items() if executor in run.failed_on and event.placements.get(p) != executor]
    wanted = [p for p, run in own.items() if run.wanted == executor or p in failed]
    if not wanted:
        return Verdict()
    elsewhere = [p for p in wanted if event.placements.get(p) != executor]
    outrun = [p for p in elsewhere if own[p].is_speculative]
    slow = [p for p in wanted if p not in elsewhere and slowness.get(p, 0.0) > SLOW]
    # Where tasks wait for no executor, each goes wherever a slot is free.
    in_vain = [p for p in elsewhere if p not in outrun and p not in failed] if locality_wait_ms > 0 else []
    is_bad = bool(outrun or slow) and 2 * (len(outrun) + len(slow) + len(in_vain)) >= len(wanted)
    is_refused = len(in_vain) == len(wanted)
    return Verdict(is_bad, is_bad and bool(outrun), is_refused, 2 * len(failed) >= len(wanted))


def _may_have_run_others(fleet: Fleet, event: BatchEnded, executor: str) -> bool:
    """Whether another query was in a batch during this one, and ran there in its last batch, or had none yet."""
    began_at_ms = event.at_ms - event.milliseconds
    return any(
        (executor in other.ran_on.values() or not other.ran_on)
        and (other.is_in_a_batch or other.ran_at_ms >= began_at_ms)
        for id, other in fleet.queries.items()
        if id != event.query
    )


def _reason(past: Sequence[Verdict]) -> str:
    """Why the tasks are to be lent; empty when they are not."""
    if sum(verdict.is_outrun for verdict in past) >= 2:
        return "other executors were faster, by speculation, in two of the last twelve batches"
    if sum(verdict.has_failed for verdict in past) >= 2:
        return "they failed there and went well elsewhere, in two of the last twelve batches"
    if len(past) >= 3 and all(verdict.is_bad for verdict in past[-3:]):
        return f"they take more than {SLOW:g} times as long there as they did, in three batches, and others do not"
    if len(past) >= 2 and all(verdict.is_refused for verdict in past[-2:]):
        return "it took none of them, in two batches"
    return ""


def _may_be_lent(fleet: Fleet, lent: int) -> bool:
    """Whether more than half of the executors that get tasks have theirs after one more loan."""
    usable = len(fleet.executors.keys() - fleet.withheld.keys())
    return 2 * (lent + 1) <= usable


def _lent(lending: Lending, key: Key, reason: str, slowness: float, now_ms: int) -> Lending:
    times = lending.times.get(key, 0)
    return replace(
        lending,
        loans={**lending.loans, key: Loan(reason, now_ms + _pause_ms(times), slowness)},
        times={**lending.times, key: min(times + 1, _MOST_TIMES)},
        verdicts={other: past for other, past in lending.verdicts.items() if other != key},
    )


def _forgiven(lending: Lending, key: Key, now_ms: int) -> Lending:
    """With one loan or failed trial less, after an hour without a loan."""
    times, since_ms = lending.times.get(key, 0), lending.well_since.get(key)
    if not times or (since_ms is not None and now_ms < since_ms + FORGIVEN_AFTER_MS):
        return lending
    left = times if since_ms is None else times - 1
    return replace(lending, times={**lending.times, key: left}, well_since={**lending.well_since, key: now_ms})


def _pause_ms(times: int) -> int:
    return int(min(FIRST_TRIAL_MS * 2 ** min(times, _MOST_TIMES), LAST_TRIAL_MS))


def _after_a_batch(
    lending: Lending, key: Key, own: Mapping[int, TaskRun], event: BatchEnded, slowness: Mapping[int, float]
) -> Lending:
    """The loan after one more batch: its trial begins, goes on or fails; or it is over."""
    loan = lending.loans[key]
    executor = key[1]
    loan = replace(loan, batches=loan.batches + 1)
    if loan.slowness and loan.batches == _BATCHES_TO_SETTLE:
        lent = [slowness[p] for p in own if p != loan.trial and p in slowness and event.placements[p] != executor]
        if lent and median(lent) > loan.slowness / 2:  # it is the tasks that are slow: from now on that is usual
            usual = {task: runs for task, runs in lending.runs.items() if task not in {(key[0], p) for p in own}}
            return _ended(replace(lending, runs=usual), key)
    if loan.trial >= 0 and loan.trial not in own:  # the plan has it elsewhere by now: another one tries
        loan = replace(loan, trial=-1)
    if loan.trial < 0:
        if own and event.at_ms >= loan.trial_at_ms and loan.batches >= 0:
            able = own.keys() - event.not_placed
            if not able:
                return _ended(lending, key)
            loan = replace(loan, trial=min(able), trial_at_ms=event.at_ms, passed=0, outrun=0, waited=0)
        return replace(lending, loans={**lending.loans, key: loan})
    if own[loan.trial].wanted != executor:  # the batch began before the plan of the trial, or other tasks outvote it
        loan = replace(loan, waited=loan.waited + 1)
        is_in_vain = loan.waited >= _BATCHES_TO_WAIT and event.at_ms >= loan.trial_at_ms + _MS_TO_WAIT
        return _ended(lending, key) if is_in_vain else replace(lending, loans={**lending.loans, key: loan})
    is_elsewhere = event.placements.get(loan.trial) != executor
    if is_elsewhere and own[loan.trial].is_speculative and not loan.passed and loan.outrun < _BATCHES_TO_FETCH:
        return replace(lending, loans={**lending.loans, key: replace(loan, outrun=loan.outrun + 1)})
    if is_elsewhere or slowness.get(loan.trial, 0.0) > WELL:
        times = lending.times.get(key, 0)
        loan = replace(loan, trial=-1, trial_at_ms=event.at_ms + _pause_ms(times))
        return replace(
            lending, loans={**lending.loans, key: loan}, times={**lending.times, key: min(times + 1, _MOST_TIMES)}
        )
    if loan.passed:  # in the batch before it had to fetch its state
        return _ended(lending, key)
    return replace(lending, loans={**lending.loans, key: replace(loan, passed=1)})


def _ended(lending: Lending, key: Key) -> Lending:
    return replace(lending, loans={other: loan for other, loan in lending.loans.items() if other != key})
