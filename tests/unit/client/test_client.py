"""What a program reads of a running application: its status, and what would move."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.cli.main import main
from mooring.client import MooringClient
from mooring.errors import InvalidPlanError, RecordError
from mooring.metadata import FileMetadataStore
from tests.unit.cli import records


def test_status_and_plan_are_those_of_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = records.write(tmp_path)

    def shown(*command: str) -> object:
        assert main([*command, "--metadata", place, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    with MooringClient.open(place) as client:
        assert client.status() == shown("status")
        options = ["--add-host", "10.0.0.5", "--remove-host", "10.0.0.2", "--move", "1=10.0.0.4"]
        assert client.plan(["10.0.0.5"], ["10.0.0.2"], {"1": "10.0.0.4"}) == shown("plan", *options)
        assert client.plan()["moves"] == []


def test_without_a_status_sizes_are_not_known(tmp_path: Path) -> None:
    place = records.write(tmp_path, record={})
    with MooringClient.open(place) as client:
        assert client.plan(["10.0.0.5"])["bytes-to-fetch"] is None


def test_a_status_of_another_form_is_said(tmp_path: Path) -> None:
    with (
        MooringClient.open(records.write(tmp_path, record={"tasks": [1]})) as client,
        pytest.raises(RecordError, match="of another form"),
    ):
        client.plan()


def test_a_host_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    with (
        MooringClient.open(records.write(tmp_path)) as client,
        pytest.raises(InvalidPlanError, match=r"10.0.0.33.*nearest: 10.0.0.3"),
    ):
        client.plan(remove_hosts=["10.0.0.33"])


@pytest.mark.parametrize("damage", [b"{", b"[1]"])
def test_what_is_not_there_or_damaged_is_said(tmp_path: Path, damage: bytes) -> None:
    with MooringClient.open(str(tmp_path)) as client:
        with pytest.raises(RecordError, match="there is no status"):
            client.status()
        with pytest.raises(RecordError, match="there is no job model"):
            client.plan()
    place = records.write(tmp_path)
    with FileMetadataStore(place) as store:
        store.put("status", damage)
    with MooringClient.open(place) as client:
        for asked in (client.status, client.plan):
            with pytest.raises(RecordError, match=r"the status .* is damaged"):
                asked()
    with FileMetadataStore(place) as store:
        store.put("job-models/13", damage)
    with MooringClient.open(place) as client, pytest.raises(RecordError, match=r"job model 13 .* is damaged"):
        client.plan()
