"""Several clients and threads at once, and clients that are closed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mooring.errors import MetadataStoreError
from mooring.metadata import MetadataStore
from mooring.testing.store_contract.clients import StoreClients, StoreFactory


class SharingContract(StoreClients):
    """Clients and threads do not disturb each other."""

    def test_many_clients_write_their_own_keys(self, store_factory: StoreFactory, store: MetadataStore) -> None:
        """No value is lost or comes under another key."""

        def work(client: int) -> None:
            with store_factory() as own:
                for number in range(10):
                    own.put(f"{client}/{number}", f"{client}.{number}".encode())
                own.delete(f"{client}/0")
                own.flush()

        _at_once(work, self.clients)
        expected = {
            f"{client}/{number}": f"{client}.{number}".encode()
            for client in range(self.clients)
            for number in range(1, 10)
        }
        assert store.all() == expected

    def test_a_reader_never_sees_half_a_value(self, store_factory: StoreFactory, store: MetadataStore) -> None:
        """While several clients write one key, each read returns one of the written values, complete."""
        written = {bytes([client]) * (70_000 + client) for client in range(self.clients)}
        done = threading.Event()
        seen: list[bytes | None] = []

        def read() -> None:
            with store_factory() as reader:
                while not done.is_set():
                    seen.extend([reader.get("key"), reader.all().get("key")])

        def write(client: int) -> None:
            with store_factory() as writer:
                for _ in range(10):
                    writer.put("key", bytes([client]) * (70_000 + client))
                writer.flush()

        reading = threading.Thread(target=read)
        store.put("key", bytes([0]) * 70_000)
        store.flush()
        reading.start()
        try:
            _at_once(write, self.clients)
        finally:
            done.set()
            reading.join()
        assert set(seen) <= written
        assert store.get("key") in written

    def test_one_client_serves_many_threads(self, store: MetadataStore) -> None:
        """Each thread reads what it wrote."""

        def work(thread: int) -> None:
            for number in range(10):
                value = f"{thread}.{number}".encode()
                store.put(f"thread {thread}", value)
                store.flush()
                assert store.get(f"thread {thread}") == value

        _at_once(work, self.clients)
        assert len(store.all()) == self.clients

    # Closing

    def test_a_closed_client_refuses_everything_but_close(self, store_factory: StoreFactory) -> None:
        """Each call raises MetadataStoreError; only `close` may be called again."""
        closed = store_factory()
        closed.close()
        closed.close()
        calls: list[Callable[[], object]] = [
            lambda: closed.get("key"),
            lambda: closed.put("key", b"1"),
            lambda: closed.put_all({"key": b"1"}),
            lambda: closed.delete("key"),
            lambda: closed.all(),
            lambda: closed.watch(lambda keys: None),
            lambda: closed.flush(),
        ]
        for refused in calls:
            with pytest.raises(MetadataStoreError):
                refused()

    def test_closing_one_client_leaves_the_others_working(
        self, store_factory: StoreFactory, other: MetadataStore
    ) -> None:
        """Clients of one store do not share their connections."""
        closing = store_factory()
        closing.put("key", b"1")
        closing.flush()
        closing.close()
        other.put("more", b"2")
        assert other.all() == {"key": b"1", "more": b"2"}


def _at_once(work: Callable[[int], None], count: int) -> None:
    """Run `work(0)` to `work(count - 1)` in threads that start together; an error in any of them is raised here."""
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        for _ in pool.map(run, range(count)):
            pass
