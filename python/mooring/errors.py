"""Every exception that Mooring raises on purpose. Catch `MooringError` to catch them all.

    MooringError
    |-- InvalidGroupingError            tasks cannot be grouped as asked, or a plan breaks a grouping promise
    |-- InvalidJobModelError            a job model, as a value or as JSON, makes no sense
    |-- InvalidMessageError             a message of another process, as JSON in the store, makes no sense
    |-- InvalidPlanError                a forecast is asked for hosts or processors that make no sense
    |-- InvalidSettingError             a spark.mooring.* key or value is wrong
    |-- MetadataStoreError              the metadata store did not do what it was asked
    |   |-- MetadataStoreUnavailable    it could not be reached, after the configured retries; nothing was written
    |   |-- MetadataStoreMissing        it is not there, and was not to be made
    |   |-- OutcomeUnknown              a write was sent and no answer came: it may have happened or not
    |   `-- WriterReplaced              another client has taken this one's role of the only writer; nothing was written
    |-- RecordError                     what an agent is to have left in the store is not there, or is damaged
    |-- LeadershipLost                  an act of a leader was refused: its term is over
    |-- CheckpointError                 a checkpoint is not what it should be, or can not be changed as asked
    |   `-- CheckpointNotUnderstood     it has something that this version can not judge: it may be good
    |-- AgentError                      the agent beside the Spark driver cannot go on
    |-- CommandFailed                   the command did not do what was asked (`mooring.cli.exits`); exit code 1
    |-- BadUsage                        it was asked in a way that makes no sense; exit code 2
    |-- CommandTimedOut                 it waited as long as it was told to; exit code 4
    `-- ClusterError                    the testing kit's cluster, or a server in it, did not do what a test needs

No error of a foreign library leaves Mooring: each is translated into one of these where it is first met, and kept as
the `__cause__`. The message is for the user: it says which thing is wrong, what it is now, and what would be right.
"""

from collections.abc import Collection
from difflib import get_close_matches


def nearest(word: str, candidates: Collection[str]) -> str:
    """`; nearest: x` for the end of a message, or nothing where no candidate is likely to be what was meant.

    A candidate is near when the word begins it, or when about three quarters of their letters agree in order.
    """
    begun = [one for one in sorted(candidates) if len(word.strip("-")) > 1 and one.startswith(word) and one != word]
    close = get_close_matches(word, [one for one in candidates if one != word], n=1, cutoff=0.7)
    found = close or begun
    return f"; nearest: {found[0]}" if found else ""


class MooringError(Exception):
    """The root: anything that Mooring raises on purpose."""


class InvalidGroupingError(MooringError):
    """Tasks cannot be grouped as asked, or a plan breaks a promise; the message says which, and where."""


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
    """There is no such store, and who only reads makes none."""


class OutcomeUnknown(MetadataStoreError):
    """A write was sent and its fate is not known. Read before writing again."""


class RecordError(MooringError):
    """What an agent is to have left in the metadata store is not there, or is damaged; the message names the record."""


class LeadershipLost(MooringError):
    """An act that only the leader may do was refused, and not done: its term is over, and another may lead."""


class WriterReplaced(MetadataStoreError):
    """Another client has taken over this one's role of the only writer. Nothing was written, and nothing will be."""


class CheckpointError(MooringError):
    """A checkpoint is not what it should be, or can not be changed as asked; the message names the file or batch."""


class CheckpointNotUnderstood(CheckpointError):
    """A checkpoint has something that this version can not judge, as what a newer Spark writes. It may be good.

    Nobody may take this for damage: no batch is undone for it, and nothing is removed.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"not understood: {what}")
        self.what = what


class AgentError(MooringError):
    """The agent beside the Spark driver cannot go on; queries keep the last plan and a new agent is started."""


class ClusterError(MooringError):
    """A cluster or a server of the testing kit did not start, stop or answer as the test needs."""
