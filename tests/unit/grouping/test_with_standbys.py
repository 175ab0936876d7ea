"""The grouper that adds standbys to what another one decides."""

import pytest

from mooring.errors import InvalidGroupingError
from mooring.grouping import HostAwareGrouper, SingleContainerGrouper, StandbyTaskNameGrouper, check_standbys
from mooring.model import JobModel, TaskMode
from tests.property.standby_fleets import actives, holders
from tests.unit.grouping.builders import partitions, tasks

PLACES = {"0": "a", "1": "b", "2": "c", "3": "d"}
NAMES = partitions(12)


def group(previous=None, places=PLACES, names=NAMES, seen=None, **options):
    return JobModel.of(StandbyTaskNameGrouper(**options).group(tasks(*names), seen or {}, places, previous))


def test_actives_are_grouped_as_the_other_grouper_does():
    found = group(factor=3)
    alone = JobModel.of(HostAwareGrouper().group(tasks(*NAMES), {}, PLACES))
    assert actives(found) == actives(alone)
    check_standbys(found, tasks(*NAMES), factor=3)


def test_a_processor_with_nothing_but_standbys_is_listed():
    found = group(places={"0": "a", "1": "b"}, names=["t"])
    assert {id: [task.task_mode for task in held.tasks.values()] for id, held in found.containers.items()} == {
        "0": [TaskMode.ACTIVE],
        "1": [TaskMode.STANDBY],
    }


def test_any_grouper_can_be_wrapped():
    found = group(grouper=SingleContainerGrouper(), places={"0": "a", "1": "b"})
    assert set(actives(found).values()) == {"0"} and len(found.containers["1"].tasks) == 12


def test_grouping_its_own_output_changes_nothing():
    found = group(factor=2, zones={"a": "x", "b": "x", "c": "y", "d": "y"})
    assert group(found, factor=2, zones={"a": "x", "b": "x", "c": "y", "d": "y"}) == found


def test_tasks_of_a_lost_processor_go_to_their_copies():
    before = group()
    left = {id: place for id, place in PLACES.items() if id != "0"}
    after = group(before, left, seen={name: PLACES[id] for name, id in actives(before).items()})
    copies = holders(before)
    lost = [name for name, id in actives(before).items() if id == "0"]
    assert lost and all(actives(after)[name] in copies[name] for name in lost)


def test_a_task_that_ran_where_somebody_still_is_stays_there():
    before = group(places={"0": "a", "1": "b"}, names=["t"])
    after = group(before, {"1": "b", "2": "a"}, ["t"], seen={"t": "a"})
    assert actives(after) == {"t": "2"}


def test_the_report_has_all_processors_and_what_is_missing():
    grouper = StandbyTaskNameGrouper(factor=4)
    found = grouper.group_with_report(tasks("t"), {}, {"0": "a", "1": "b", "2": "b"})
    assert set(found.model.containers) == {"0", "1", "2"}
    assert [unplaced.replica for unplaced in found.unplaced] == [1, 2]


def test_what_the_other_grouper_says_of_itself_holds():
    wrapped = StandbyTaskNameGrouper(SingleContainerGrouper("1"))
    assert (wrapped.moves_fewest, wrapped.most_processors, wrapped.container_ids) == (True, 1, ["1"])


def test_refusals_of_the_other_grouper_and_a_bad_factor_come_through():
    with pytest.raises(InvalidGroupingError, match="no tasks"):
        group(names=[])
    with pytest.raises(InvalidGroupingError, match="replication factor is 9"):
        group(factor=9)
