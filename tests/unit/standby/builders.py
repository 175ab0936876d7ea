"""Short ways to write a plan with its copies, and to read one."""

from collections.abc import Mapping

from mooring.model import JobModel
from mooring.standby import JobModelWithStandbys, assign_standbys
from tests.property.standby_fleets import holders, model_with

HOSTS = {"0": "a", "1": "b", "2": "c"}


def model(
    active: Mapping[str, str],
    copies: Mapping[str, tuple[str, ...]] | None = None,
    locations: Mapping[str, str] = HOSTS,
) -> JobModel:
    """Task to its processor, task to the processors with a copy, processor to location."""
    return model_with(active, copies or {}, locations)


def assign(
    active: Mapping[str, str],
    factor: int = 2,
    locations: Mapping[str, str] = HOSTS,
    before: Mapping[str, tuple[str, ...]] | None = None,
    old_locations: Mapping[str, str] | None = None,
    **known,
) -> JobModelWithStandbys:
    """Assign copies; `before` is task to the processors that had one."""
    previous = None if before is None else model({}, before, old_locations or locations)
    return assign_standbys(model(active, {}, locations), factor, previous, **known)


def copies_of(found: JobModelWithStandbys) -> dict[str, set[str]]:
    return {task: set(held) for task, held in holders(found.model).items()}
