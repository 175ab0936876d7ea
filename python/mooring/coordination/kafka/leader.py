"""Leader election in a compacted topic of Kafka: a lease that its holder renews, with fenced writes.

The leader writes `leader/lease` again and again, as the only writer of the role `agent`. Its term lasts for two thirds
of the silence in the lease, from the moment at which the last renewal was *sent*. Its clock also counts time in which
the process is stopped.

A waiting candidate takes the role when it has seen the lease unchanged for the whole silence, by its own clock, from
the moment at which it had *read* the lease. Taking the role first shuts out the former leader's writes, and then reads
the topic to its end. If a renewal came in between, it is read there, and the candidate does not lead. So two candidates
never lead at once, if their clocks run at about the same speed. Writes of the leader through `write` are fenced
together with its lease.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from mooring.coordination.campaign import RENEWAL, TERM, Campaign, clock
from mooring.coordination.kafka.lease import CANDIDATE, LEASE, PREFIX, Lease, Silence, read_lease
from mooring.coordination.leadership import Leadership
from mooring.errors import LeadershipLost, MetadataStoreError, WriterReplaced
from mooring.metadata.kafka.exclusive import RoleHeld
from mooring.metadata.kafka.store import KafkaMetadataStore, Role
from mooring.metadata.store import Report, report_to_log

_ROLE = "agent"
_AGAIN_SECONDS = 0.3
_FORGOTTEN = 10
"""A candidate is removed when its record has not changed for this many times the silence."""


class KafkaLeaderLock(Campaign[Leadership]):
    """One candidate in a store's topic."""

    def __init__(
        self,
        store: KafkaMetadataStore,
        name: str,
        silence_seconds: float,
        report: Report = report_to_log,
        now: Callable[[], float] = clock,
        token: str | None = None,
        epoch: str = "",
    ) -> None:
        """`name` is for messages; another candidate may lead after `silence_seconds`. The caller closes the store.

        `token` identifies this candidate. A new process with the token of a candidate whose process died replaces it at
        once. `epoch` is the epoch of its last term, in case the topic has lost it.
        """
        super().__init__(name, report, now)
        self._store, self._silence_seconds = store, silence_seconds
        self._token = token or uuid.uuid4().hex
        self._epoch = epoch
        self._role: Role | None = None
        self._held: Lease | None = None
        self._lease: Lease | None = None
        self._lease_text: bytes | None = None
        self._others: list[str] = []
        self._replaced = False
        self._looked_at: float | None = None
        self._silence = Silence()
        self._announced_at: float | None = None
        self._stop_watching: Callable[[], None] | None = None

    @property
    def silence_seconds(self) -> float:
        """The time without a renewal after which another candidate may lead."""
        return self._silence_seconds

    @property
    def epoch(self) -> str:
        """The epoch of this candidate's last term; empty before the first one."""
        return self._epoch

    def leader(self) -> str | None:
        """The leader at the last look. None when there was none, or when that look is too old."""
        lease, looked_at, now = self._lease, self._looked_at, self._now()
        if lease is None or lease.ended or looked_at is None or now - looked_at > self._silence_seconds * TERM:
            return None
        return None if self._is_silent(lease, now) else lease.leader

    def confirm(self, leadership: Leadership) -> None:
        """Make a write without effect: delete a missing key in the term. See `LeaderLock.confirm`."""
        self.write({CANDIDATE + self._token: None}, leadership)

    def write(self, values: Mapping[str, bytes | None], leadership: Leadership | None) -> None:
        """Write all values in one transaction of this term; None deletes a key.

        LeadershipLost when the term is over; then nothing is written. Other errors are those of the store.
        """
        role = self._role
        if leadership is None or role is None or self.leadership != leadership:
            raise LeadershipLost(f"{self._name} does not lead now: what it would keep for all is not written")
        try:
            # At most until the next renewal, which must wait for this write.
            generation = role.write(values, self._silence_seconds * RENEWAL)
        except (WriterReplaced, RoleHeld) as replaced:
            self._woken.set()
            raise LeadershipLost(f"{self._name} does not lead any more: {replaced}") from replaced
        if generation != leadership.generation:
            raise LeadershipLost(f"{self._name} leads in another term now than that of generation {generation}")

    # On this candidate's thread

    def _step(self) -> float:
        self._end_if_over()
        if self._stop_watching is None:
            self._stop_watching = self._store.watch(self._on_change)
        if self._term is not None:
            try:
                self._lead()
            except MetadataStoreError:
                if self.leadership is None:
                    raise
                return _AGAIN_SECONDS  # the term goes on: no other candidate can lead yet
            self._look_around()
            return self._silence_seconds * RENEWAL
        self._look(self._store.look(PREFIX, self._silence_seconds * RENEWAL, with_own=False))
        if self._is_free():
            self._lead()
            return self._silence_seconds * RENEWAL
        self._leave_role()
        self._announce()
        return self._until_the_next_look()

    def _look(self, records: dict[str, bytes]) -> None:
        """Take in the lease and the waiting candidates from the records."""
        now = self._now()
        if self._looked_at is not None and now - self._looked_at > 2 * RENEWAL * self._silence_seconds:
            self._silence = Silence()  # this candidate has not looked for a while: others may have renewed meanwhile
        self._lease_text = records.get(LEASE)
        if self._lease_text is None and self._lease is not None:
            records[LEASE] = b""  # the topic was emptied: the last leader may still lead
        else:
            self._lease = read_lease(self._lease_text)
        self._silence.look(records, now)
        self._looked_at = now
        self._others = [key for key in records if key.startswith(CANDIDATE) and key != CANDIDATE + self._token]
        self._contested = any(self._silence.of(key, now) < self._silence_seconds for key in self._others)

    def _look_around(self) -> None:
        """Look at the waiting candidates while this one leads. An error here does not end the term."""
        with suppress(MetadataStoreError):
            self._look(self._store.look(PREFIX, self._silence_seconds * RENEWAL / 2))
            if self._lease is not None and self._lease.token != self._token:
                self._leave_role()
                self._end_term()
                self._woken.set()
                return
            for key in self._others:
                if self._silence.of(key, self._now()) > _FORGOTTEN * self._silence_seconds:
                    self._store.delete(key)

    def _is_silent(self, lease: Lease, now: float) -> bool:
        return self._silence.of(LEASE, now) * 1000 >= lease.silence_ms

    def _is_free(self) -> bool:
        """Whether this candidate may try to lead. It must wait like others if another process has used its token."""
        lease = self._lease
        if lease is None or lease.ended or (lease.token == self._token and not self._replaced):
            return True
        return self._is_silent(lease, self._now())

    def _is_as_seen(self, value: Callable[[str], bytes | None]) -> bool:
        """Whether the lease is still the one that this candidate has judged, or is its own."""
        text = value(LEASE)
        lease = read_lease(text)
        return text == self._lease_text or (lease is not None and lease.token == self._token and not self._replaced)

    def _announce(self) -> None:
        """Write the record of this waiting candidate, if it is time to renew it."""
        now = self._now()
        if self._announced_at is None or now - self._announced_at >= self._silence_seconds * RENEWAL:
            sign = f"{self._name} {uuid.uuid4().hex[:8]}"
            self._store.put(CANDIDATE + self._token, sign.encode())
            self._announced_at = now

    def _until_the_next_look(self) -> float:
        usual = self._silence_seconds * RENEWAL
        if self._lease is None:
            return usual
        remaining = self._lease.silence_ms / 1000 - self._silence.of(LEASE, self._now())
        return max(0.01, min(usual, remaining))

    def _lead(self) -> None:
        """Begin a term, or renew it."""
        if self._role is None:
            self._role = self._store.role(_ROLE, self._is_as_seen)
        sent = self._now()
        lease = self._next_lease()
        records: dict[str, bytes | None] = {LEASE: lease.text()}
        if self._announced_at is not None:
            records[CANDIDATE + self._token] = None
        # The first write starts a producer, which may take long. The term counts from `sent` all the same.
        timeout_seconds = self._silence_seconds * (TERM if self._held is None else RENEWAL)
        try:
            generation = self._role.write(records, timeout_seconds)
        except (WriterReplaced, RoleHeld) as refusal:
            self._replaced = self._replaced or isinstance(refusal, WriterReplaced)
            self._leave_role()
            self._end_term()
            self._woken.set()
            return
        self._held, self._announced_at, self._epoch, self._replaced = lease, None, lease.epoch, False
        self._lease, self._lease_text, self._looked_at = lease, lease.text(), self._now()
        if self._term is not None and self._term.generation != generation:
            self._end_term()
        self._set_term(Leadership(generation, self._name), sent + self._silence_seconds * TERM)

    def _next_lease(self) -> Lease:
        if self._held is not None:
            return self._held.renewed()
        seen = self._lease
        if seen is not None and seen.token == self._token:
            epoch = seen.epoch
        else:
            epoch = self._epoch if seen is None and self._epoch else uuid.uuid4().hex[:12]
        return Lease(self._name, self._token, epoch, round(self._silence_seconds * 1000))

    def _leave_role(self) -> None:
        role, self._role, self._held = self._role, None, None
        if role is not None:
            role.close()

    def _withdraw(self) -> None:
        if self._stop_watching is not None:
            self._stop_watching()
        try:
            if self._held is not None and self._role is not None:
                ended = replace(self._held.renewed(), ended=True)
                self._role.write({LEASE: ended.text()}, self._silence_seconds * RENEWAL)
            if self._announced_at is not None:
                self._store.delete(CANDIDATE + self._token)
        except (WriterReplaced, RoleHeld):
            pass  # another candidate leads: there is nothing to give up
        finally:
            self._leave_role()

    # On the store's thread

    def _on_change(self, keys: frozenset[str]) -> None:
        if LEASE in keys and self._term is None:
            self._woken.set()
