"""The interface of every metadata store. `mooring.testing.MetadataStoreContract` tests what it promises."""

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
    """A small map from text to bytes that outlives the application. Several processes may share it.

    A key is any Unicode text, also the empty one; upper and lower case differ. A value has 0 bytes to 16 MiB. A reader
    sees a value as a whole or not at all. All methods may be called from any thread.

    Errors of all methods:

    - MetadataStoreError: the key or the value cannot be stored (nothing was written), or the store is closed.
    - MetadataStoreUnavailable: the store cannot be reached. Nothing was written.
    - OutcomeUnknown: a write was sent, and may have been done or not. Read the value to find out.
    """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """The value of a key, or None when there is none."""

    @abstractmethod
    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Write several values, in the order of the mapping.

        The mapping is not one transaction: after an error the first few values may be written.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove a key; a missing one is fine."""

    @abstractmethod
    def all(self, prefix: str = "") -> dict[str, bytes]:
        """Every key that starts with `prefix`, with its value. Damaged values are left out and reported."""

    @abstractmethod
    def watch(self, watcher: Watcher) -> Cancel:
        """Call `watcher` with the keys that any client writes or deletes after this call; the result ends the watch.

        Each change calls the watcher at least once. Several changes may come in one call, and a key may be among them
        that did not change. A key that is written and deleted in a short time may be left out. The watcher runs on a
        thread that the store chooses, and should return soon. Its exceptions are reported, not raised.
        """

    @abstractmethod
    def flush(self) -> None:
        """Return when every reader sees all writes of this client."""

    @abstractmethod
    def close(self) -> None:
        """End all watches, and close the connection. Calling it again does nothing."""

    def put(self, key: str, value: bytes) -> None:
        """Write one value, in place of the one before it."""
        self.put_all({key: value})

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_key(key: str) -> str:
    """The key itself. MetadataStoreError where it is not valid Unicode text, as with a lone surrogate."""
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        raise MetadataStoreError(f"the key {key!r} is not valid Unicode text") from None
    return key


def check_values(values: Mapping[str, bytes]) -> dict[str, bytes]:
    """A copy of the mapping. MetadataStoreError for the first key or value that no store can hold."""
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
