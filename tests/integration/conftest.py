"""Servers, and a JVM, that several modules start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import py4j
import pytest
from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway

from mooring.jar import jar_path
from mooring.testing.zookeeper import ZooKeeperEnsemble
from tests.integration.support.short_lived_settings import SHORT_LIVED


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """One ZooKeeper node for all tests of a module; a module that needs more has a fixture of this name."""
    with ZooKeeperEnsemble(work_dir=tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def shared_gateway() -> Iterator[JavaGateway]:
    """The gateway of a JVM with Spark and the shim, and no application. All modules of this process share it."""
    conf = SparkConf(False).setAll([*SHORT_LIVED.items(), ("spark.driver.extraClassPath", str(jar_path()))])
    gateway: JavaGateway = launch_gateway(conf)
    yield gateway
    gateway.shutdown()


@pytest.fixture(scope="module")
def jvm(shared_gateway: JavaGateway) -> Iterator[Any]:
    """A JVM with Spark and the shim, and no application. A module must leave its static fields as they were.

    Its errors come as py4j raises them. After a session of an earlier module, PySpark would translate them by the JVM
    of that session.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)
        yield shared_gateway.jvm


@pytest.fixture(scope="module")
def gateway(shared_gateway: JavaGateway, jvm: Any) -> JavaGateway:
    """The gateway of `jvm`, whose Java code can call Python."""
    ensure_callback_server_started(shared_gateway)
    return shared_gateway
