"""How the agent connects to the driver's JVM: as Spark's own Python programs do, by the environment."""

import pytest
from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaGateway

from mooring.spark.gateway import connect

ENVIRONMENT = {"PYSPARK_GATEWAY_PORT": "25333", "PYSPARK_GATEWAY_SECRET": "s3cret"}


@pytest.mark.parametrize(
    ("pins_threads", "kind"),
    [
        ({}, ClientServer),
        ({"PYSPARK_PIN_THREAD": "True"}, ClientServer),
        ({"PYSPARK_PIN_THREAD": "false"}, JavaGateway),
    ],
)
def test_the_kind_of_connection_is_that_of_the_drivers_server(pins_threads, kind):
    gateway = connect({**ENVIRONMENT, **pins_threads})
    assert type(gateway) is kind
    parameters = gateway.gateway_parameters
    assert (parameters.port, parameters.auth_token, parameters.auto_convert) == (25333, "s3cret", True)


@pytest.mark.parametrize("missing", ENVIRONMENT)
def test_without_port_or_secret_there_is_no_connection(missing):
    with pytest.raises(KeyError, match=missing):
        connect({name: value for name, value in ENVIRONMENT.items() if name != missing})
