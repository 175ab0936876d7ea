"""The connection to the driver's JVM, as Spark's own Python programs make it, with py4j alone.

PySpark need not be there: the driver of a Scala job in YARN's cluster mode has Spark's jars, and no Python package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayParameters, JavaGateway


def connect(environment: Mapping[str, str] = os.environ) -> Any:
    """A gateway to the JVM that has put its port and secret into the environment; nothing is sent yet.

    Spark starts another server where PYSPARK_PIN_THREAD is `false`. KeyError when there is no port or no secret.
    """
    port, secret = int(environment["PYSPARK_GATEWAY_PORT"]), environment["PYSPARK_GATEWAY_SECRET"]
    if environment.get("PYSPARK_PIN_THREAD", "true").lower() == "true":
        java = JavaParameters(port=port, auth_token=secret, auto_convert=True)
        return ClientServer(java_parameters=java, python_parameters=PythonParameters(port=0, eager_load=False))
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True))
