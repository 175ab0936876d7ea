"""What the agent reaches through the driver, in the context that the application has made, and in no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.errors import AgentError
from mooring.metadata import FileMetadataStore
from mooring.metadata.owned_tree import OwnedTree
from mooring.metadata.owners import Claim, Owner
from mooring.spark.delta import DeltaTables
from mooring.spark.hadoop_tree import HadoopFileTree
from tests.integration.support.application_in_one_jvm import application

pytestmark = pytest.mark.one_jvm


def test_the_agent_does_not_make_a_context_while_that_of_the_application_starts_or_ends(tmp_path: Path) -> None:
    with application("starting", tmp_path) as spark:
        sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession
        contexts = spark._jvm.java.lang.Class.forName("org.apache.spark.SparkContext$").getField("MODULE$").get(None)
        contexts.clearActiveContext()  # as in the moments before Spark has made the context the active one
        sessions.clearDefaultSession()
        try:
            assert HadoopFileTree(spark._jvm, f"file:{tmp_path}/records").list() == []
            with pytest.raises(AgentError, match="the application has no session now"):
                DeltaTables(spark._jvm).exists(f"{tmp_path}/table")
            assert contexts.getActive().isEmpty()
        finally:
            contexts.setActiveContext(spark._jsc.sc())


@pytest.mark.heavy
def test_two_applications_keep_apart_in_storage_that_only_the_driver_reaches(tmp_path: Path) -> None:
    with application("driver files", tmp_path) as spark:
        place = f"file:{tmp_path}/records"
        tree = HadoopFileTree(spark._jvm, place)
        assert tree.create("one", b"first")
        assert not tree.create("one", b"second")
        assert tree.read("one", 100) == b"first"

        told: list[tuple[str, Claim | None]] = []
        for number in (1, 2):
            owner = Owner(f"app-{number}", "host", (f"ckpt-{number}",))
            owned = OwnedTree(
                lambda at: HadoopFileTree(spark._jvm, at), place, owner, lambda *one: told.append(one), print
            )
            FileMetadataStore(owned).put("status", b"mine")
        assert [where for where, _ in told] == [place, f"{place}/application-2"]
