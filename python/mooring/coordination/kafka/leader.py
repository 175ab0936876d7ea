"""Leader election in a compacted topic of Kafka: a lease that its holder renews, behind a fence.

Who leads writes `leader/lease` again and again as the only writer of the role `agent`; its term lasts, by a clock that
runs on while the process is stopped, for two thirds of the silence that it states, from the moment at which the last
renewal was *sent*. Who waits takes the role when it has seen the lease unchanged for all of that silence, by its own
clock, from the moment at which it had *read* it. Taking the role shuts the former leader's writes out first, then reads
the topic to its end: a renewal that came in between is seen there, and nothing is taken. So two never lead at once, as
long as their clocks run at about the same speed. What the leader writes through `write` is fenced together with its
lease.
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
"""Times the silence, after which a candidate that says nothing is removed."""


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
        """`name` is for people; another may lead after `silence_seconds`. The store stays the caller's.

        `token` tells this candidate from others: who comes with the token of one whose process died takes its place at
        once. `epoch` is that of its last term, for the case that the topic has lost it.
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
        """After how long another may lead when nothing is heard of this candidate."""
        return self._silence_seconds

    @property
    def epoch(self) -> str:
        """That of this candidate's last term; empty before the first."""
        return self._epoch

    def leader(self) -> str | None:
        """Who led at the last look; None when nobody did, or the look is so old that another may lead by now."""
        lease, looked_at, now = self._lease, self._looked_at, self._now()
        if lease is None or lease.ended or looked_at is None or now - looked_at > self._silence_seconds * TERM:
            return None
        return None if self._is_silent(lease, now) else lease.leader

    def confirm(self, leadership: Leadership) -> None:
        """Delete what is not there, in the term."""
        self.write({CANDIDATE + self._token: None}, leadership)

    def write(self, values: Mapping[str, bytes | None], leadership: Leadership | None) -> None:
        """Write all in one transaction of this term, None deletes; LeadershipLost, and nothing written, after it.

        As a write of the store for the rest.
        """
        role = self._role
        if leadership is None or role is None or self.leadership != leadership:
            raise LeadershipLost(f"{self._name} does not lead now: what it would keep for all is not written")
        try:
            # No longer: the next renewal waits behind it.
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
                return _AGAIN_SECONDS  # the term lasts, and nobody else can have it yet
            self._look_around()
            return self._silence_seconds * RENEWAL
        self._look(self._store.look(PREFIX, self._silence_seconds * RENEWAL, with_own=False))
        if self._is_free():
            self._lead()
            return self._silence_seconds * RENEWAL
        self._let_go()
        self._announce()
        return self._until_the_next_look()

    def _look(self, records: dict[str, bytes]) -> None:
        """Take in the lease and who waits."""
        now = self._now()
        if self._looked_at is not None and now - self._looked_at > 2 * RENEWAL * self._silence_seconds:
            self._silence = Silence()  # we saw nothing for a while: that is no silence of others
        self._lease_text = records.get(LEASE)
        if self._lease_text is None and self._lease is not None:
            records[LEASE] = b""  # somebody has emptied the topic: who led may lead still
        else:
            self._lease = read_lease(self._lease_text)
        self._silence.look(records, now)
        self._looked_at = now
        self._others = [key for key in records if key.startswith(CANDIDATE) and key != CANDIDATE + self._token]
        self._contested = any(self._silence.of(key, now) < self._silence_seconds for key in self._others)

    def _look_around(self) -> None:
        """See who waits, while this candidate leads; what goes wrong with that is no reason not to lead."""
        with suppress(MetadataStoreError):
            self._look(self._store.look(PREFIX, self._silence_seconds * RENEWAL / 2))
            if self._lease is not None and self._lease.token != self._token:
                self._let_go()
                self._end_term()
                self._woken.set()
                return
            for key in self._others:
                if self._silence.of(key, self._now()) > _FORGOTTEN * self._silence_seconds:
                    self._store.delete(key)

    def _is_silent(self, lease: Lease, now: float) -> bool:
        return self._silence.of(LEASE, now) * 1000 >= lease.silence_ms

    def _is_free(self) -> bool:
        """Whether this candidate may try to lead. One that was replaced under its own token waits as others do."""
        lease = self._lease
        if lease is None or lease.ended or (lease.token == self._token and not self._replaced):
            return True
        return self._is_silent(lease, self._now())

    def _is_as_seen(self, value: Callable[[str], bytes | None]) -> bool:
        """Whether the lease is the one by which this candidate found that it may lead, or its own."""
        text = value(LEASE)
        lease = read_lease(text)
        return text == self._lease_text or (lease is not None and lease.token == self._token and not self._replaced)

    def _announce(self) -> None:
        """Say that there is somebody who waits."""
        now = self._now()
        if self._announced_at is None or now - self._announced_at >= self._silence_seconds * RENEWAL:
            sign = f"{self._name} {uuid.uuid4().hex[:8]}"
            self._store.put(CANDIDATE + self._token, sign.encode())
            self._announced_at = now

    def _until_the_next_look(self) -> float:
        usual = self._silence_seconds * RENEWAL
        if self._lease is None:
            return usual
        left = self._lease.silence_ms / 1000 - self._silence.of(LEASE, self._now())
        return max(0.01, min(usual, left))

    def _lead(self) -> None:
        """Begin a term, or renew it."""
        if self._role is None:
            self._role = self._store.role(_ROLE, self._is_as_seen)
        sent = self._now()
        lease = self._next_lease()
        records: dict[str, bytes | None] = {LEASE: lease.text()}
        if self._announced_at is not None:
            records[CANDIDATE + self._token] = None
        # The first write brings a producer up. However long it takes, the term counts from now.
        patience = self._silence_seconds * (TERM if self._held is None else RENEWAL)
        try:
            generation = self._role.write(records, patience)
        except (WriterReplaced, RoleHeld) as refusal:
            self._replaced = self._replaced or isinstance(refusal, WriterReplaced)
            self._let_go()
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

    def _let_go(self) -> None:
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
            pass  # another leads: there is nothing to give up
        finally:
            self._let_go()

    # On the store's thread

    def _on_change(self, keys: frozenset[str]) -> None:
        if LEASE in keys and self._term is None:
            self._woken.set()
