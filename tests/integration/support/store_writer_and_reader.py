"""One writer and one reader on a store that fails and recovers; the values that each of them saw are checked."""

import threading
import time

from mooring.errors import MetadataStoreUnavailable, OutcomeUnknown

SIZES = (10, 300_000, 1_000)
"""Sizes of values in bytes; the second one is so large that stores split it."""


def value(number):
    word = b"%d " % number
    return word * (SIZES[number % len(SIZES)] // len(word))


class PutStream:
    """Puts value after value under one key until it is stopped. After a failed put it goes on with the next number.

    The reader checks each value: it is whole, no older than the last put acknowledged before the read, and no newer
    than the last put that has begun.
    """

    def __init__(self, writing_store, reading_store):
        self._writing, self._reading = writing_store, reading_store
        self._stopped = threading.Event()
        self.begun = self.acknowledged = self.read = 0
        self.unavailable, self.unknown, self.wrong = [], [], []
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]

    def __enter__(self):
        self._writing.put("key", value(0))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, count=5, seconds=30):
        """Wait until `count` more puts were acknowledged, and `count` more values were read."""
        writes, reads, end = self.acknowledged + count, self.read + count, time.monotonic() + seconds
        while self.acknowledged < writes or self.read < reads:
            assert time.monotonic() < end, f"no progress: {self}"
            assert not self.wrong, self.wrong
            time.sleep(0.02)

    def _write(self):
        while not self._stopped.is_set():
            self.begun += 1
            try:
                self._writing.put("key", value(self.begun))
            except OutcomeUnknown as error:
                self.unknown.append(str(error))
            except MetadataStoreUnavailable as error:
                self.unavailable.append(str(error))
            else:
                self.acknowledged = self.begun

    def _read(self):
        while not self._stopped.is_set():
            acknowledged = self.acknowledged
            try:
                seen = self._reading.get("key")
            except MetadataStoreUnavailable:
                continue
            self.read += 1
            number = int(seen.split()[0]) if seen else -1
            if not acknowledged <= number <= self.begun or seen != value(number):
                self.wrong.append((acknowledged, number, self.begun, len(seen or b"")))

    def __repr__(self):
        return (
            f"begun {self.begun}, acknowledged {self.acknowledged}, read {self.read}, "
            f"unavailable {self.unavailable}, unknown {self.unknown}, wrong {self.wrong}"
        )
