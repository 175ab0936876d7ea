"""What every metadata store promises; `mooring.testing.MetadataStoreContract` is the same in tests."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TypeVar

from mooring.errors import MetadataStoreError

MAX_VALUE_BYTES = 16 * 1024 * 1024

Watcher = Callable[[frozenset[str]], None]
Cancel = Callable[[], None]
Report = Callable[[str], None]

Self = TypeVar("Self", bound="MetadataStore")

report_to_log: Report = logging.getLogger("mooring.metadata").warning


class MetadataStore(ABC):
    """A small map from text to bytes that outlives the application and that several processes share.

    Keys are any Unicode text, also the empty one, and differ by case; values are 0 bytes to 16 MiB. Each value is read
    whole or not at all. A key or value that cannot be stored is refused with MetadataStoreError before anything is
    written. A store that cannot be reached raises MetadataStoreUnavailable, and then nothing was written; a write whose
    fate is unknown raises OutcomeUnknown: read it back. A closed store refuses everything but `close`. All methods may
    be called from any thread.
    """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """The value of a key, or None when there is none."""

    @abstractmethod
    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Write several values, in the order of the mapping.

        Each value is written whole, the mapping is not one transaction: after an error the first few may be there.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove a key; a missing one is fine."""

    @abstractmethod
    def all(self, prefix: str = "") -> dict[str, bytes]:
        """Every key that starts with `prefix`, with its value; what cannot be understood is left out and reported."""

    @abstractmethod
    def watch(self, watcher: Watcher) -> Cancel:
        """Call `watcher` with the keys that anybody writes or deletes after this call; returns how to end that.

        Every change is told at least once; changes close together may be told as one (a key that came and went between
        two looks perhaps not at all), and a key may be told without having changed. The watcher runs on a thread of the
        store's choice and should be quick; its errors are reported and go no further.
        """

    @abstractmethod
    def flush(self) -> None:
        """Return when every reader sees what this client has written."""

    @abstractmethod
    def close(self) -> None:
        """Stop watching and let go of the connection. Calling it again does nothing."""

    def put(self, key: str, value: bytes) -> None:
        """Write one value over what was there."""
        self.put_all({key: value})

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_key(key: str) -> str:
    """The key itself; MetadataStoreError when it is not Unicode text (a lone surrogate can be written nowhere)."""
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        raise MetadataStoreError(f"the key {key!r} is not valid Unicode text") from None
    return key


def check_values(values: Mapping[str, bytes]) -> dict[str, bytes]:
    """A copy of the mapping, or MetadataStoreError for the first key or value that no store can hold."""
    for key, value in values.items():
        check_key(key)
        if len(value) > MAX_VALUE_BYTES:
            raise MetadataStoreError(
                f"the value of {key!r} has {len(value)} bytes; at most {MAX_VALUE_BYTES} can be stored"
            )
    return {key: bytes(value) for key, value in values.items()}


def call_watcher(watcher: Watcher, keys: frozenset[str], report: Report) -> None:
    """Call a watcher. An exception of the watcher is reported, not raised."""
    try:
        watcher(keys)
    except Exception as error:
        report(f"a watcher of the metadata store failed: {error!r}")
