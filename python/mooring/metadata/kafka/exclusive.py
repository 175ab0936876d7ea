"""The only writer of a role. When another client takes the role, this one is fenced and writes nothing more.

Kafka gives each role's transactional id to one producer at a time. Mooring adds generations: each client that takes a
role writes a claim with a number, and the highest claim in the topic has the role.

Taking the role (`take_over`), in this order:

1. Start a producer with the role's transactional id. This fences the producer before it: it can write nothing more, and
   its unfinished transaction is aborted.
2. Read the topic to its end. This waits for the unfinished transactions of other roles, as a claim may follow them. If
   the topic has a higher claim than this client's, the role is lost for good: WriterReplaced.
3. Ask `may_take`. If it refuses, close the producer: RoleHeld. Nothing was written. The fenced client starts a new
   producer at its next write and goes on, as its claim is still the highest.
4. Write the claim: the generation after the highest one. A client claims once; a second producer of the same client
   uses the same generation.

Writing (`write`): one transaction for each write; readers see all of it or nothing. Each record has the role and the
generation in its headers, and readers ignore a record of a lower generation than one before it (`replica`).

What a failure leaves, and what follows:

- Before the commit: nothing that readers see. Until the transaction is aborted (by this client, by the next producer,
  or by the coordinator after `transaction.timeout.ms`) readers do not see later records of other writers.
- No answer to the commit, or fenced during it: OutcomeUnknown. The records may be there or not.
- Fenced before the commit: another client has the role, or the coordinator gave up this producer. Steps 1 and 2 tell
  which: the write fails with WriterReplaced, or is sent again by a new producer.
- No answer to a claim: MetadataStoreUnavailable. If the claim was written after all, the next claim is higher.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mooring.errors import MetadataStoreError, OutcomeUnknown, WriterReplaced
from mooring.metadata.kafka.client import KafkaClient
from mooring.metadata.kafka.reader import Reader
from mooring.metadata.kafka.records import Author, author_headers, claim_key
from mooring.metadata.kafka.writer import TopicRecords, close_producer, outcome, remaining, send, wait_for

_AGAIN_SECONDS = 0.05
_ABORT_SECONDS = 2.0

_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})

_LONGEST_TRANSACTION_SECONDS = 10.0
"""While a transaction is unfinished, no reader sees the records after its beginning, so it must be short."""


MayTake = Callable[[], bool]
"""Whether the role may be taken. Called when the writer before is fenced, and all that it wrote has been read."""


class RoleHeld(Exception):
    """Another client has the role, and it may not be taken now. Mooring catches this."""


class ExclusiveWriter:
    """The writer of one role of a topic, with the transactional id `mooring-<topic>-<role>`.

    See the module's docstring for its steps.
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
        """The generation that this writer has claimed; None before its claim."""
        return self._generation

    def take_over(self, deadline: float) -> None:
        """Make sure that this writer has the role: take it at the first call, and later check that it was not lost.

        RoleHeld where it may not be taken, and then nothing is written. WriterReplaced where another client has it.
        """
        if self._producer is None and self._generation is not None:  # a new producer would fence a client with a claim
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
            except (_Fenced, _Aborted):  # another client takes the role at the same time: read the claims again
                self.close()
            except (MetadataStoreError, RoleHeld):
                self.close()
                raise

    def write(self, records: TopicRecords, deadline: float) -> int:
        """Write all records in one transaction; returns the offset after the last one."""
        while True:
            self.take_over(deadline)
            assert self._generation is not None
            headers = author_headers(Author(self._role, self._generation))
            try:
                return self._transaction(records, headers, deadline)
            except _Fenced:  # `take_over` finds out whether another client has the role
                continue

    def close(self) -> None:
        """End the producer. An unfinished transaction is aborted. The claim stays the highest until another's."""
        close_producer(self._client, self._producer)
        self._producer = None

    def _fresh_producer(self, deadline: float) -> Any:
        """A new producer. Its start fences the one before it, and aborts that one's unfinished transaction."""
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

    def _transaction(self, records: TopicRecords, headers: list[tuple[str, bytes]], deadline: float) -> int:
        """Write all records or none. _Fenced, and nothing written, where another producer has the transactional id."""
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
            if isinstance(refusal, OutcomeUnknown):  # it was not committed, so no reader will ever see it
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
        """Abort the transaction, so that readers see others' later writes. True where another producer has the id."""
        producer, self._producer = self._producer, None
        try:
            self._call(producer.abort_transaction, time.monotonic() + _ABORT_SECONDS)
        except _Fenced:
            return True
        except (MetadataStoreError, _Aborted):
            pass  # the coordinator aborts it after transaction.timeout.ms, or the next producer of this role does
        return False

    def _call(self, step: Callable[[float], object], deadline: float) -> None:
        """Call one step of a transaction, again while its error is retriable and the deadline has not passed."""
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
    """Another producer has the transactional id, or the coordinator no longer knows this one."""


class _Aborted(Exception):
    """The transaction can only be aborted; the message says why."""
