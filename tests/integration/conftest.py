"""Servers, and a JVM, that several modules start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import py4j
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


@contextmanager
def _jvm_without_application() -> Iterator[JavaGateway]:
    """The gateway of a new JVM with Spark and the shim.

    Its errors come as py4j raises them. After a session of an earlier module, PySpark would translate them by the JVM
    of that session.
    """
    gateway: JavaGateway = launch_gateway(SparkConf(False).set("spark.driver.extraClassPath", str(jar_path())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)
        yield gateway
    gateway.shutdown()


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    """The gateway of a JVM as `jvm`, whose Java code can call Python."""
    with _jvm_without_application() as gateway:
        ensure_callback_server_started(gateway)
        yield gateway


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """A JVM with Spark and the shim, and no application."""
    with _jvm_without_application() as gateway:
        yield gateway.jvm
