"""The writer that is alone in its role: whoever takes the role over fences it, and it is told so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mooring.errors import MetadataStoreError, OutcomeUnknown, WriterReplaced
from mooring.metadata.kafka.client import KafkaClient
from mooring.metadata.kafka.reader import Reader
from mooring.metadata.kafka.records import Author, author_headers, claim_key
from mooring.metadata.kafka.writer import Records, close_producer, outcome, remaining, send, wait_for

_AGAIN_SECONDS = 0.05
_ABORT_SECONDS = 2.0

_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})

# Until an unfinished transaction is over, nobody reads what was written after its beginning: keep it short.
_LONGEST_TRANSACTION_SECONDS = 10.0


MayTake = Callable[[], bool]
"""Asked when the writer before can write nothing more and all that it wrote is read: whether its role may be taken."""


class RoleHeld(Exception):
    """The role is somebody else's for now. Never leaves Mooring."""


class ExclusiveWriter:
    """One transactional id for each topic and role, one transaction for each write: all of it is seen, or nothing.

    The role is taken by `take_over`: it fences whoever had it, reads the topic to its end (also what other roles have
    not committed yet: behind that there may be a claim), and claims the generation after the highest one, if `may_take`
    has nothing against it; whoever was fenced for nothing goes on by itself. The highest claim in the topic says who
    has the role. When its transaction was broken off (the broker was away for too long), the holder goes on under its
    generation as long as nobody has claimed a higher one; from then on every write raises WriterReplaced.
    """

    def __init__(
        self,
        client: KafkaClient,
        reader: Reader,
        role: str,
        timeout_seconds: float,
        may_take: MayTake = lambda: True,
    ) -> None:
        self._client = client
        self._reader = reader
        self._role = role
        self._may_take = may_take
        self._transaction_seconds = min(timeout_seconds, _LONGEST_TRANSACTION_SECONDS)
        self._producer: Any = None
        self._generation: int | None = None
        self._replaced: str | None = None

    @property
    def generation(self) -> int | None:
        """The one that was claimed; None before."""
        return self._generation

    def take_over(self, deadline: float) -> None:
        """Make sure that this writer has the role: take it the first time, else find out whether it is still ours.

        RoleHeld when it may not be taken; nothing is written then.
        """
        if self._producer is None and self._generation is not None:  # fence nobody who has replaced us
            self._reader.catch_up(self._client.end_offset(deadline), deadline)
            self._check_claims()
        while self._producer is None:
            if self._replaced is not None:
                raise WriterReplaced(self._replaced)
            if time.monotonic() >= deadline:
                raise self._client.unavailable(f"the role of the writer {self._role!r} could not be had")
            try:
                self._producer = self._fresh_producer(deadline)
                self._reader.catch_up(self._client.written_end(deadline), deadline)
                self._check_claims()
                if not self._may_take():
                    raise RoleHeld
                self._claim_once(deadline)
            except (_Fenced, _Aborted):  # somebody else takes the role at this moment: the claims will tell
                self.close()
            except (MetadataStoreError, RoleHeld):
                self.close()
                raise

    def write(self, records: Records, deadline: float) -> int:
        """Write all in one transaction."""
        while True:
            self.take_over(deadline)
            assert self._generation is not None
            headers = author_headers(Author(self._role, self._generation))
            try:
                return self._transaction(records, headers, deadline)
            except _Fenced:  # replaced, or only too slow for the coordinator: the claims tell
                continue

    def close(self) -> None:
        """Leave the role to the next one; a transaction that is open comes to nothing."""
        close_producer(self._client, self._producer)
        self._producer = None

    def _fresh_producer(self, deadline: float) -> Any:
        """A producer that has fenced the one before it, and settled what that one left unfinished."""
        transactional_id = f"mooring-{self._client.topic}-{self._role}"
        configuration = self._client.options.writing(self._transaction_seconds, transactional_id)
        with self._client.settings_checked():
            producer = self._client.kafka.Producer(self._client.with_error_callback(configuration))
        self._call(producer.init_transactions, deadline)
        return producer

    def _check_claims(self) -> None:
        newest = self._reader.generation(self._role)
        if self._generation is not None and newest > self._generation:
            self.close()
            self._replaced = (
                f"this writer ({self._role!r}, generation {self._generation}) of topic {self._client.topic} was"
                f" replaced by generation {newest}: it writes nothing more"
            )
            raise WriterReplaced(self._replaced)

    def _claim_once(self, deadline: float) -> None:
        if self._generation is not None:
            return
        generation = self._reader.generation(self._role) + 1
        try:
            self._reader.wrote(self._transaction({claim_key(self._role): b"%d" % generation}, [], deadline))
        except OutcomeUnknown as unknown:  # if it was written after all, the next claim is higher
            raise self._client.unavailable(str(unknown)) from unknown
        self._generation = generation

    def _transaction(self, records: Records, headers: list[tuple[str, bytes]], deadline: float) -> int:
        """All or nothing. _Fenced, and nothing written, when another producer has the transactional id."""
        producer = self._producer
        try:
            self._call(lambda seconds: producer.begin_transaction(), deadline)
        except _Aborted as aborted:
            self._break_off()
            raise self._client.unavailable(str(aborted)) from aborted
        deliveries = send(self._client, producer, records, headers, deadline)
        now = time.monotonic()
        wait_for(self._client, producer, deliveries, min(now + self._transaction_seconds, max(now + 1, deadline)))
        if not deliveries.are_acknowledged:
            if self._break_off():
                raise _Fenced
            refusal = outcome(self._client, deliveries)
            if isinstance(refusal, OutcomeUnknown):  # not committed, so nobody will ever see it: it is known
                refusal = self._client.unavailable(f"a transaction of {deliveries.count} came to nothing")
            raise refusal
        self._commit(producer, deadline)
        return deliveries.end

    def _commit(self, producer: Any, deadline: float) -> None:
        try:
            self._call(producer.commit_transaction, deadline)
        except _Aborted as aborted:
            self._break_off()
            raise self._client.unavailable(f"the transaction was not committed ({aborted})") from aborted
        except _Fenced:
            self.close()
            raise OutcomeUnknown(self._unknown("fenced while it was committed")) from None
        except MetadataStoreError as error:
            self.close()
            raise OutcomeUnknown(self._unknown(str(error))) from error

    def _unknown(self, reason: str) -> str:
        return f"a write to topic {self._client.topic} may have happened or not: {reason}"

    def _break_off(self) -> bool:
        """Abort, so that others' writes are not hidden behind this transaction; whether another producer has the id."""
        producer, self._producer = self._producer, None
        try:
            self._call(producer.abort_transaction, time.monotonic() + _ABORT_SECONDS)
        except _Fenced:
            return True
        except (MetadataStoreError, _Aborted):
            pass  # the coordinator aborts it after transaction.timeout.ms, or our next producer does
        return False

    def _call(self, step: Callable[[float], object], deadline: float) -> None:
        """One step of a transaction, taken up again while that may help."""
        while True:
            try:
                step(remaining(deadline))
                return
            except (self._client.kafka.KafkaException, self._client.kafka.KafkaError) as failure:
                error = self._client.error_of(failure)
                if error.name() in _FENCED:
                    self.close()
                    raise _Fenced from failure
                if error.txn_requires_abort():
                    raise _Aborted(self._client.text_of(error)) from failure
                if not error.retriable() or time.monotonic() >= deadline:
                    raise self._client.unavailable(self._client.text_of(error)) from failure
            time.sleep(_AGAIN_SECONDS)


class _Fenced(Exception):
    """Another producer has the transactional id, or the coordinator has given up on this one."""


class _Aborted(Exception):
    """The transaction can only be aborted; the message says why."""
