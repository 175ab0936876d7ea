"""What the agent opens: the metadata store, the catalogue, leases, and the election where drivers share the store."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from mooring.agent.checkpoints.catalogue_keeper import CatalogueKeeper
from mooring.agent.checkpoints.leases import Leases
from mooring.agent.election.handover import ELECTION
from mooring.agent.election.leadership import Election, LeadershipReporter
from mooring.agent.messages.first_lines import records_are_in, records_of_another_are_in, shown
from mooring.agent.records_writer import RecordsWriter
from mooring.errors import AgentError, InvalidSettingError, MetadataStoreError
from mooring.metadata import FileMetadataStore, MemoryMetadataStore, MetadataStore, open_metadata_store
from mooring.metadata.owned_tree import OwnedTree
from mooring.metadata.owners import Claim, Owner
from mooring.model import events
from mooring.model.standing import NONE, REFUSED, UNKNOWN, Standing
from mooring.records.records import Records
from mooring.settings import Settings
from mooring.spark.bridge import JvmBridge
from mooring.spark.delta import DeltaTables
from mooring.spark.hadoop_tree import HadoopFileTree, open_tree

LAST_WRITES_SECONDS = 1.5
"""How long the agent writes at its end, in seconds. The driver waits longer for that end."""

_RECORDS: Final = "records"
"""The name under which the driver keeps the store's address for the next agent."""


class JobElection(Election, Protocol):
    """A candidate of a job's election, and the records of that job."""

    def records(self, warn: Callable[[str], None]) -> Records:
        """The records, which only a leader can write. `warn` is called for records that are ignored."""


class AgentResources:
    """Opens each resource once, and closes all of them at the end."""

    def __init__(self, bridge: JvmBridge) -> None:
        self._bridge = bridge
        open_hadoop = partial(HadoopFileTree, bridge.jvm)
        self._leases = Leases(open_hadoop, self._warn_unless_ending, lambda: time.time_ns() // 1_000_000)
        self._catalogue = CatalogueKeeper(
            DeltaTables(bridge.jvm, self._warn_unless_ending),
            bridge.take_reports,
            open_hadoop,
            self._warn_unless_ending,
            bridge.reports_written,
        )
        self._application = ""
        self._started_ms = 0
        self._records: RecordsWriter | None = None
        self._owned: OwnedTree | None = None
        self._reporter: LeadershipReporter | None = None
        self._has_lost = False
        self._election: JobElection | None = None

    def open_records(self, settings: Settings, place: str, application: str, checkpoint: str) -> RecordsWriter:
        """The records of this application in the store. In an election they are written only while this driver leads.

        In a directory, `checkpoint` of a query tells the records of this application from those of others. Where no
        setting names a store, an agent that is started again uses the store of the agent before it: `place` depends on
        which query is planned first, and that may be another one by then.
        """
        place = settings.metadata or self._bridge.from_earlier_agent(_RECORDS) or place
        self._bridge.keep_for_next_agent(_RECORDS, place)
        election, warn = self._election, self._warn_unless_ending
        open_job_records: Callable[[Callable[[str], None]], Records]
        if election is None:
            open_job_records = partial(Records, self._open_store(settings, place, application, checkpoint))
        else:
            open_job_records = election.records
            self._info(records_are_in(place))
        follows_another_driver = self._reporter is not None and self._reporter.has_waited
        every_seconds = settings.placement_poll_interval_ms / 1000
        self._records = RecordsWriter(
            open_job_records,
            warn,
            self._may_write,
            every_seconds,
            follows_another_driver,
            count_place_changes=lambda: 0 if self._owned is None else self._owned.moves,
        )
        return self._records

    def handle(self, event: events.Event) -> None:
        """Pass an event of the driver to the writers that have their own threads. Returns at once."""
        if isinstance(event, events.ApplicationStarted):
            self._application, self._started_ms = event.application, event.started_ms
            self._check_directory(Settings.from_conf(event.settings).metadata)
        if self._owned is not None and isinstance(event, (events.QueryStarting, events.QueryPlanned)):
            self._owned.works_on(event.checkpoint)
        self._leases.handle(event)
        self._catalogue.handle(event)

    def join_election(self, starting: events.DriverStarting) -> None:
        """Join the election, once. If that is not possible, report it to the JVM."""
        if self._reporter is not None or self._has_lost:
            return
        if not self._bridge.report_standing(Standing(UNKNOWN), time.time()):
            self._has_lost = True  # it lost the election while an earlier agent ran
            return
        try:
            self._election = self._stand(starting, Settings.from_conf(starting.settings))
        except InvalidSettingError as fault:
            self._bridge.report_standing(
                Standing(REFUSED, f"spark.mooring.{str(fault).removeprefix('spark.mooring.')}"), time.time()
            )
            return
        except (ModuleNotFoundError, MetadataStoreError) as error:
            self._bridge.warn(f"this driver takes part in no election ({error})")
            self._bridge.report_standing(Standing(NONE), time.time())
            return
        self._reporter = LeadershipReporter(self._election, self._bridge)

    def _stand(self, starting: events.DriverStarting, settings: Settings) -> JobElection:
        """A candidate for this driver, in the store that the drivers of the job share."""
        place, options = settings.metadata or "", settings.metadata_options
        name, warn = f"{starting.name} on {starting.driver_host}", self._warn
        kept_by_earlier_agent = self._bridge.from_earlier_agent(ELECTION)
        if _scheme(place) == "kafka":
            from mooring.agent.election.kafka import KafkaElection

            return KafkaElection(place, options, name, kept_by_earlier_agent, warn)
        from mooring.agent.election.zookeeper import ZkElection

        return ZkElection(place, options, starting.name, name, kept_by_earlier_agent, warn)

    def _warn(self, message: str) -> None:
        """Log a warning. It does not fail, as threads of stores and elections must continue."""
        with suppress(AgentError):  # the main thread gets the same error, and ends the agent
            self._bridge.warn(message)

    def _warn_unless_ending(self, message: str) -> None:
        """Log a problem of a store or an election. While the application ends, it is not logged as a warning."""
        with suppress(AgentError):  # as above
            self._bridge.warn_unless_ending(message)

    def _may_write(self) -> bool:
        """Whether this driver may write the records: no other driver leads, and it owns the directory."""
        if self._owned is not None and not self._owned.holds:
            return False
        return not self._has_lost and (self._reporter is None or self._reporter.may_write())

    def end(self) -> None:
        """Write the last records for a short time, and leave the election. The application has ended."""
        if self._records is not None:  # first, as its thread writes while the other resources close
            self._records.save_end(self._application, time.time_ns() // 1_000_000)
        self._leases.end()
        self._catalogue.end()
        if self._records is not None:
            self._records.flush(LAST_WRITES_SECONDS)
        if self._owned is not None:
            self._owned.end()
        if self._reporter is not None:
            self._reporter.close()

    def _open_store(self, settings: Settings, place: str, application: str, checkpoint: str) -> MetadataStore:
        """The store that the settings name. If it can not be opened, warn once and use a store in memory."""
        warn = self._warn_unless_ending
        try:
            if self._has_lost:
                return MemoryMetadataStore(report=warn)
            if _scheme(place) in ("zk", "kafka", "memory"):
                store = open_metadata_store(place, report=warn, **settings.metadata_options)
                self._info(records_are_in(place))
                return store
            for name in sorted(settings.metadata_options):
                warn(f"spark.mooring.metadata.{name} has no effect on {place}: only zk:// and kafka:// have options")
            owner = Owner(application, socket.gethostname(), (), started_ms=self._started_ms)
            owner = owner.with_checkpoints([checkpoint])
            self._owned = OwnedTree(
                partial(open_tree, self._bridge.jvm),
                place,
                owner,
                partial(self._report_place, place),
                lambda message: self._warn(shown(message)),
            )
            return FileMetadataStore(self._owned, report=warn)
        except (MetadataStoreError, InvalidSettingError) as error:
            warn(f"the metadata store {place} can not be opened ({error}): places are not kept beyond this application")
            return MemoryMetadataStore(report=warn)

    def _check_directory(self, place: str | None) -> None:
        """Warn before the first query if the directory of the settings can not be read.

        A thread of its own reads it, as storage that is not available may take long to answer.
        """
        if place is None or _scheme(place) in ("zk", "kafka", "memory"):
            return

        def check() -> None:
            try:
                open_tree(self._bridge.jvm, place).list()
            except MetadataStoreError as error:
                self._warn_unless_ending(
                    f"spark.mooring.metadata={place} can not be read now ({error}): name a directory that this driver"
                    " may read and write; else a restart does not know on which hosts its state is"
                )

        threading.Thread(target=check, name="mooring-look-at-records", daemon=True).start()

    def _report_place(self, wanted: str, place: str, others: Claim | None) -> None:
        if others is None:
            self._info(records_are_in(place))
        else:
            self._warn(records_of_another_are_in(wanted, others.owner, place))

    def _info(self, message: str) -> None:
        with suppress(AgentError):  # as for `_warn`
            self._bridge.info(message)


def _scheme(place: str) -> str:
    return place.partition("://")[0]
