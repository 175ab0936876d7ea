"""Every exception that Mooring raises on purpose. Catch `MooringError` to catch them all.

    MooringError
    |-- InvalidGroupingError            tasks cannot be grouped as asked, or a job model breaks a promise
    |-- InvalidJobModelError            a job model, as a value or as JSON, makes no sense
    |-- InvalidMessageError             a message of another process, as JSON in the store, makes no sense
    |-- InvalidPlanError                a forecast is asked for hosts or processors that make no sense
    |-- InvalidSettingError             a spark.mooring.* key or value is wrong
    |-- MetadataStoreError              the metadata store did not do what it was asked
    |   |-- MetadataStoreUnavailable    it could not be reached, after the configured retries; nothing was written
    |   |-- MetadataStoreMissing        it is not there, and a reader makes none
    |   |-- OutcomeUnknown              a write was sent and no answer came: it may have happened or not
    |   `-- WriterReplaced              another client is the only writer now; nothing was written
    |-- RecordError                     a record of the agent is missing in the store, or is damaged
    |-- LeadershipLost                  an act of a leader was refused: its term is over
    |-- CheckpointError                 a checkpoint is damaged, or can not be changed as asked
    |   `-- CheckpointNotUnderstood     it has something that this version can not judge: it may be good
    |-- AgentError                      the agent beside the Spark driver cannot go on
    |-- CommandFailed                   the command did not do what was asked (`mooring.cli.exits`); exit code 1
    |-- BadUsage                        the arguments of the command make no sense; exit code 2
    |-- CommandTimedOut                 the time that the command may wait is over; exit code 4
    `-- ClusterError                    the testing kit's cluster, or a server in it, did not do what a test needs

No error of a foreign library leaves Mooring. Each is translated into one of these where Mooring calls the library, and
kept as the `__cause__`. The message is for the user: it says what is wrong, its value now, and what is expected.
"""

from collections.abc import Collection
from difflib import get_close_matches


def nearest(word: str, candidates: Collection[str]) -> str:
    """`; nearest: x` for the end of a message; an empty text where no candidate is near.

    A candidate is near when it begins with the word, or when about three quarters of their letters agree in order.
    """
    others = [candidate for candidate in candidates if candidate != word]
    longer = [other for other in sorted(others) if len(word.strip("-")) > 1 and other.startswith(word)]
    close = get_close_matches(word, others, n=1, cutoff=0.7)
    found = close or longer
    return f"; nearest: {found[0]}" if found else ""


class MooringError(Exception):
    """The root: anything that Mooring raises on purpose."""


class InvalidGroupingError(MooringError):
    """Tasks cannot be grouped as asked, or a job model breaks a promise; the message says which, and where."""


class InvalidJobModelError(MooringError):
    """A job model makes no sense; the message names the container, and the task when it is about one."""


class InvalidMessageError(MooringError):
    """A stored message makes no sense; the message names the field, what it is, and what is expected."""


class InvalidPlanError(MooringError):
    """A forecast is asked for hosts or processors that make no sense; the message names them as `mooring plan` does."""


class InvalidSettingError(MooringError):
    """A setting is misspelt or out of range; the message names the key, the value, and what is valid."""


class MetadataStoreError(MooringError):
    """The metadata store did not do what it was asked."""


class MetadataStoreUnavailable(MetadataStoreError):
    """The store could not be reached after the configured retries. Nothing was written, so asking again is safe."""


class MetadataStoreMissing(MetadataStoreError):
    """There is no such store. A client that only reads does not make one."""


class OutcomeUnknown(MetadataStoreError):
    """A write was sent and no answer came: it may have happened or not. Read before writing again."""


class RecordError(MooringError):
    """A record of the agent is missing in the metadata store, or is damaged; the message names the record."""


class LeadershipLost(MooringError):
    """An act that only the leader may do was refused and not done. The term is over, and another client may lead."""


class WriterReplaced(MetadataStoreError):
    """Another client is the only writer now. Nothing was written, and this client can not write again."""


class CheckpointError(MooringError):
    """A checkpoint is damaged, or can not be changed as asked; the message names the file or batch."""


class CheckpointNotUnderstood(CheckpointError):
    """A checkpoint has something that this version can not judge, such as a newer Spark's format. It may be good.

    It is not treated as damage: no batch is undone because of it, and nothing is removed.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"not understood: {what}")
        self.what = what


class AgentError(MooringError):
    """The agent beside the Spark driver cannot go on. Queries keep the last plan, and the driver starts a new agent."""


class ClusterError(MooringError):
    """A cluster or a server of the testing kit did not start, stop or answer as the test needs."""
