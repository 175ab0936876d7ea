"""No error of kazoo's leaves the store: each is an answer, a lost connection, or an error of Mooring's."""

import inspect

import pytest
from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable
from mooring.metadata.zookeeper import ZkConnection, settings_from
from mooring.metadata.zookeeper.connection import NoAnswer, RetryDeadline

ANSWERS = {
    "NoNodeError",
    "NodeExistsError",
    "NotEmptyError",
    "BadVersionError",
    "RolledBackError",
    "RuntimeInconsistency",
}
EVERY_ERROR = [
    error
    for _, error in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(error, exceptions.KazooException)
]


class Sent:
    """What kazoo returns for a request, with this outcome."""

    def __init__(self, outcome):
        self.outcome = outcome

    def get(self, timeout):
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture
def connection():
    connection = ZkConnection(settings_from("zk://127.0.0.1:1/mooring", {"auth": "digest:me:hunter2"}))
    yield connection
    connection.close()


def outcome_of(connection, outcome):
    try:
        return connection._answer(Sent(outcome), RetryDeadline(1.0))
    except (NoAnswer, MetadataStoreError) as error:
        assert "hunter2" not in str(error)
        return error


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: error.__name__)
def test_every_error_of_kazoo_is_translated(connection, error):
    outcome = outcome_of(connection, error())
    if error.__name__ in ANSWERS:
        assert isinstance(outcome, error)
    else:
        assert isinstance(outcome, (NoAnswer, MetadataStoreUnavailable))
        assert isinstance(outcome.__cause__, error)


@pytest.mark.parametrize("error", [KazooTimeoutError, RuntimeError, ValueError])
def test_an_answer_that_did_not_come_or_was_not_understood_is_lost(connection, error):
    assert isinstance(outcome_of(connection, error()), NoAnswer)


def test_a_transaction_without_permission_is_refused_as_a_whole(connection):
    answers = [exceptions.RolledBackError(), exceptions.NoAuthError()]
    assert "no permission" in str(outcome_of(connection, answers))


def test_patience_begins_anew_with_every_answer():
    now = [0.0]
    deadline = RetryDeadline(10.0, now=lambda: now[0])
    now[0] = 9.0
    assert deadline.seconds_left == 1.0
    deadline.renew()
    assert deadline.seconds_left == 10.0
    now[0] = 30.0
    assert deadline.seconds_left == 0.0
