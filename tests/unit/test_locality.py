"""Who names the place of a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.errors import InvalidSettingError
from mooring.locality import KubernetesLocationIdProvider, location_id_provider, main, node_of
from mooring.model import LocationId

HOST = "10.0.0.7"
HERE = "tests.unit.test_locality"


class Rack:
    """A provider as a user writes it."""

    def location_id(self):
        print("looking at the rack")
        return " rack-9 "


class NoRack:
    def location_id(self):
        raise LookupError("no rack here")


class Silent:
    def location_id(self):
        return None


class TwoLines:
    def location_id(self):
        return "rack-9\nrack-10"


class Asked:
    times = 0

    def location_id(self):
        Asked.times += 1
        return "rack-9"


def place(spec, environment=None, said=None):
    return location_id_provider(spec, HOST, environment or {}, (said if said is not None else []).append).location_id()


def test_by_default_the_host_is_the_place():
    assert place("host") == LocationId(HOST)


def test_an_environment_variable_names_the_place():
    assert place("env:NODE", {"NODE": " slice-4/2 "}) == LocationId("slice-4/2")


def test_on_kubernetes_the_node_is_the_place():
    assert place("kubernetes", {"NODE_NAME": "gke-3"}) == "gke-3"


def test_a_place_may_be_put_together():
    environment = {"SLICE": "slice-4", "INDEX": "2", "NODE_NAME": "gke-3"}
    assert place("env:SLICE/env:INDEX", environment) == "slice-4/2"
    assert place("host/env:INDEX", environment) == "10.0.0.7/2"
    assert place("kubernetes/env:SLICE/env:INDEX", environment) == "gke-3/slice-4/2"


def test_a_class_of_the_users_names_the_place_and_is_asked_once():
    assert place(f"{HERE}:Rack") == "rack-9"
    provider = location_id_provider(f"{HERE}:Asked", HOST, {}, print)
    assert provider.location_id() == provider.location_id() == "rack-9"
    assert Asked.times == 1


@pytest.mark.parametrize(
    ("spec", "environment", "why"),
    [
        ("env:NODE", {}, "NODE"),
        ("env:NODE", {"NODE": ""}, "NODE"),
        ("env:NODE", {"NODE": "  "}, "NODE"),
        ("kubernetes", {"NODE": "x"}, "NODE_NAME"),
        ("env:SLICE/env:INDEX", {"SLICE": "slice-4"}, "INDEX"),
        ("host/env:INDEX", {}, "INDEX"),
        (f"{HERE}:NoRack", {}, "LookupError: no rack here"),
        (f"{HERE}:Silent", {}, "answered None"),
        (f"{HERE}:TwoLines", {}, "rack-10"),
        (f"{HERE}:Missing", {}, "AttributeError"),
        ("no.such.module:Rack", {}, "ModuleNotFoundError"),
    ],
)
def test_without_an_answer_the_host_is_the_place_and_it_is_said_once(spec, environment, why):
    said = []
    provider = location_id_provider(spec, HOST, environment, said.append)
    assert provider.location_id() == provider.location_id() == LocationId(HOST)
    assert len(said) == 1 and why in said[0] and HOST in said[0]


@pytest.mark.parametrize(
    "spec", ["", "env:", "hosts", "env:A/", "/host", "host//host", "rack", f"host/{HERE}:Rack", "env:a.b", ":Rack"]
)
def test_another_provider_is_refused(spec):
    with pytest.raises(InvalidSettingError, match=r"location\.provider"):
        location_id_provider(spec, HOST, {}, print)


@pytest.mark.parametrize(
    ("environment", "labels", "zone"),
    [
        ({"NODE_ZONE": " eu-1a "}, None, "eu-1a"),
        ({"NODE_ZONE": ""}, 'app="x"\ntopology.kubernetes.io/zone="eu-1b"\n', "eu-1b"),
        ({}, 'topology.kubernetes.io/region="eu"\n', None),
        ({}, 'topology.kubernetes.io/zone=""\n', None),
        ({}, None, None),
    ],
)
def test_the_zone_of_a_pod_is_in_a_variable_or_in_a_file(tmp_path, environment, labels, zone):
    if labels is not None:
        (tmp_path / "labels").write_text(labels)
    assert KubernetesLocationIdProvider(environment, HOST, print, tmp_path / "labels").zone() == zone


def test_the_command_prints_the_answer_and_nothing_else(capsys):
    assert main([f"{HERE}:Rack"]) == 0
    said = capsys.readouterr()
    assert said.out == "rack-9\n" and "looking at the rack" in said.err


def test_the_command_says_why_there_is_no_answer(capsys):
    assert main([f"{HERE}:NoRack"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "no rack here" in said.err
    assert main([]) == 2


def test_the_command_is_what_executors_run(tmp_path):
    (tmp_path / "my_racks.py").write_text("class Rack:\n    def location_id(self):\n        return 'rack-9'\n")
    package = Path(__file__).parents[2] / "python"
    done = subprocess.run(
        [sys.executable, "-m", "mooring.locality", "my_racks:Rack"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(tmp_path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "rack-9\n"), done.stderr


@pytest.mark.parametrize(
    ("location", "provider", "node"),
    [
        ("node-1", "kubernetes", "node-1"),
        ("node-1", "env:NODE_NAME", "node-1"),
        ("disk-1/node-1", "env:DISK/kubernetes", "node-1"),
        ("10.0.0.7", "host", None),
        ("data-1", "volume", None),
        ("10.0.0.7", "env:DISK/kubernetes", None),
        ("rack-9", "racks:Rack", None),
    ],
)
def test_the_node_in_a_location(location: str, provider: str, node: str | None) -> None:
    assert node_of(location, provider) == node


def test_the_volume_is_named_by_the_variable_then_by_the_file_of_its_store(tmp_path: Path) -> None:
    said: list[str] = []

    def named(environment: dict[str, str], store: Path | None = tmp_path) -> str:
        return location_id_provider("volume", HOST, environment, said.append, store=store).location_id()

    assert named({}) == HOST and "the volume has no name" in said[0]
    assert named({}, None) == HOST
    (tmp_path / ".volume").write_text("volume-1a2b3c4d\n")
    assert named({}) == "volume-1a2b3c4d"
    assert named({"MOORING_VOLUME": "data-1"}) == "data-1"
