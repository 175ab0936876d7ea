"""One writer and one reader on a store that breaks and comes back: what was acknowledged, and what was seen."""

import threading
import time

from mooring.errors import MetadataStoreUnavailable, OutcomeUnknown

SIZES = (10, 300_000, 1_000)
"""The second is split."""


def value(number):
    word = b"%d " % number
    return word * (SIZES[number % len(SIZES)] // len(word))


class PutStream:
    """Puts value after value under one key until it is stopped; a put that failed is followed by the next number.

    The reader checks each value that it reads: whole, no older than what was acknowledged before it asked, and no newer
    than what was begun.
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
        """Return when so many more puts were acknowledged and values read."""
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
