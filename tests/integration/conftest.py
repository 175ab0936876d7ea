"""Servers, and a JVM, that several modules start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway

from mooring.jar import jar_path
from mooring.testing.zookeeper import ZooKeeperEnsemble


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """One ZooKeeper node for all tests of a module; a module that needs more has a fixture of this name."""
    with ZooKeeperEnsemble(work_dir=tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    """The gateway of a JVM as `jvm`, whose Java code can call Python."""
    gateway: JavaGateway = launch_gateway(SparkConf(False).set("spark.driver.extraClassPath", str(jar_path())))
    ensure_callback_server_started(gateway)
    yield gateway
    gateway.shutdown()


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """A JVM with Spark and the shim, and no application."""
    gateway: JavaGateway = launch_gateway(SparkConf(False).set("spark.driver.extraClassPath", str(jar_path())))
    yield gateway.jvm
    gateway.shutdown()
