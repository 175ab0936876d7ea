"""Who names the place of a process."""

import pytest

from mooring.errors import InvalidSettingError
from mooring.locality import location_id_provider
from mooring.model import LocationId


def test_by_default_the_host_is_the_place():
    assert location_id_provider("host", "10.0.0.7", {}, print).location_id() == LocationId("10.0.0.7")


def test_an_environment_variable_names_the_place():
    provider = location_id_provider("env:NODE", "10.0.0.7", {"NODE": " slice-4/2 "}, print)
    assert provider.location_id() == LocationId("slice-4/2")


@pytest.mark.parametrize("environment", [{}, {"NODE": ""}, {"NODE": "  "}])
def test_without_an_answer_the_host_is_the_place_and_it_is_said_once(environment):
    said = []
    provider = location_id_provider("env:NODE", "10.0.0.7", environment, said.append)
    assert provider.location_id() == provider.location_id() == LocationId("10.0.0.7")
    assert len(said) == 1 and "NODE" in said[0] and "10.0.0.7" in said[0]


@pytest.mark.parametrize("spec", ["", "env:", "hosts", "kubernetes"])
def test_another_provider_is_refused(spec):
    with pytest.raises(InvalidSettingError, match="host or env:NAME"):
        location_id_provider(spec, "10.0.0.7", {}, print)
