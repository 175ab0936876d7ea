"""Selects a part of a benchmark: with all loads and sizes some take hours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from benchmarks.working import Load
from mooring.cli.exits import BadUsage
from mooring.errors import nearest


class HasLoad(Protocol):
    """One comparison of a plan."""

    @property
    def load(self) -> Load: ...


class HasCases(Protocol):
    """A plan: the comparisons of one call of a benchmark."""

    @property
    def sizes_gb(self) -> tuple[float, ...]: ...
    @property
    def rounds(self) -> int: ...
    @property
    def cases(self) -> tuple[HasLoad, ...]: ...


P = TypeVar("P", bound=HasCases)


@dataclass(frozen=True)
class Part:
    """The part of a plan to run. An empty field selects everything."""

    loads: tuple[str, ...] = ()
    sizes_gb: tuple[float, ...] = ()
    """Sizes of state, also sizes that are not in the plan."""
    rounds: int | None = None

    def of(self, plan: P) -> P:
        """The plan reduced to this part. BadUsage for a load that the plan does not have."""
        there = [case.load.name for case in plan.cases]
        for name in self.loads:
            if name not in there:
                raise BadUsage(f"no load {name!r}; expected one of {', '.join(there)}{nearest(name, there)}")
        wanted = self.loads or there
        return replace(  # type: ignore[type-var]  # a protocol can not say that it is a dataclass
            plan,
            sizes_gb=self.sizes_gb or plan.sizes_gb,
            rounds=self.rounds or plan.rounds,
            cases=tuple(case for case in plan.cases if case.load.name in wanted),
        )


WHOLE = Part()
