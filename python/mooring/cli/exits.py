"""The exit codes of the command, and one table from exceptions to them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from mooring.errors import (
    CheckpointNotUnderstood,
    InvalidPlanError,
    InvalidSettingError,
    MetadataStoreError,
    MetadataStoreMissing,
    MooringError,
)


class Exit(IntEnum):
    """The exit codes, which scripts may rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    TIMED_OUT = 4
    NOT_UNDERSTOOD = 5


class CommandFailed(MooringError):
    """The command did not do what was asked. The message says why, and what to do about it."""


class BadUsage(MooringError):
    """An argument makes no sense. The message names it, what is expected, and the nearest valid value."""


class CommandTimedOut(MooringError):
    """The command waited as long as it was told to. What was asked may still happen."""


EXIT_OF: Mapping[type[MooringError], Exit] = {
    MooringError: Exit.FAILED,
    BadUsage: Exit.USAGE,
    InvalidPlanError: Exit.USAGE,
    InvalidSettingError: Exit.USAGE,
    MetadataStoreError: Exit.UNREACHABLE,
    MetadataStoreMissing: Exit.FAILED,
    CommandTimedOut: Exit.TIMED_OUT,
    CheckpointNotUnderstood: Exit.NOT_UNDERSTOOD,
}


def exit_of(error: MooringError) -> Exit:
    """The exit code of an error: its own, else that of the nearest class above it."""
    return next(EXIT_OF[kind] for kind in type(error).__mro__ if kind in EXIT_OF)
