"""How changes are noticed, one look at a time; no thread looks here."""

import pytest

from mooring.errors import MetadataStoreUnavailable
from mooring.metadata.polling import PollingWatch

NEVER = 1_000_000.0


class Place:
    """A store's versions, which a test changes by hand."""

    def __init__(self):
        self.versions = {}
        self.unavailable = False

    def look(self):
        if self.unavailable:
            raise MetadataStoreUnavailable("gone")
        return dict(self.versions)


@pytest.fixture
def place():
    return Place()


@pytest.fixture
def reports():
    return []


@pytest.fixture
def watch(place, reports):
    watch = PollingWatch(place.look, NEVER, reports.append)
    yield watch
    watch.stop()


def test_what_was_there_before_is_no_news(place, watch):
    place.versions = {"old": "1"}
    heard = []
    watch.add(heard.append)
    watch.poll()
    assert heard == []


def test_new_changed_and_deleted_keys_are_told_together_and_once(place, watch):
    place.versions = {"stays": "1", "changes": "1", "goes": "1"}
    heard = []
    watch.add(heard.append)
    place.versions = {"stays": "1", "changes": "2", "comes": "1"}
    watch.poll()
    watch.poll()
    assert heard == [frozenset({"changes", "goes", "comes"})]


def test_trouble_is_reported_once_and_nothing_is_missed(place, watch, reports):
    heard = []
    watch.add(heard.append)
    place.unavailable = True
    watch.poll()
    watch.poll()
    place.versions = {"key": "1"}
    place.unavailable = False
    watch.poll()
    assert len(reports) == 1 and "gone" in reports[0]
    assert heard == [frozenset({"key"})]
    place.unavailable = True
    watch.poll()
    assert len(reports) == 2


def test_watching_a_place_that_cannot_be_reached_is_refused(place, watch):
    place.unavailable = True
    with pytest.raises(MetadataStoreUnavailable):
        watch.add(lambda keys: None)


def test_a_watcher_may_cancel_itself_and_others(place, watch):
    heard = []
    cancels = []

    def first(keys):
        heard.append("first")
        for cancel in cancels:
            cancel()

    cancels.append(watch.add(first))
    cancels.append(watch.add(lambda keys: heard.append("second")))
    place.versions = {"key": "1"}
    watch.poll()
    place.versions = {}
    watch.poll()
    assert heard == ["first"]


def test_a_failing_watcher_is_reported(place, watch, reports):
    watch.add(lambda keys: 1 // 0)
    place.versions = {"key": "1"}
    watch.poll()
    assert "ZeroDivisionError" in reports[0]


def test_nothing_is_told_after_stop(place, watch):
    heard = []
    watch.add(heard.append)
    watch.stop()
    place.versions = {"key": "1"}
    watch.poll()
    assert heard == []


def test_nothing_is_listed_while_the_stamp_is_the_same_but_now_and_then(place, reports):
    looks, stamps, told = [], ["a"], []

    def look():
        looks.append(1)
        return place.look()

    watch = PollingWatch(look, NEVER, reports.append, lambda: stamps[0])
    watch.add(told.append)
    for _ in range(9):
        watch.poll()
    assert len(looks) == 1
    watch.poll()
    assert len(looks) == 2
    stamps[0] = "b"
    watch.poll()
    assert len(looks) == 3
    stamps[0] = None
    watch.poll()
    watch.poll()
    assert len(looks) == 5
    watch.stop()
