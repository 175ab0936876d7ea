"""What an executor that joins reads of a task's code, and what it does not touch: in one JVM, with real broadcasts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.support.store_with_open_copy import CORE_SHIMS, scala_object

pytestmark = pytest.mark.one_jvm


@pytest.fixture(scope="module")
def context(jvm: Any) -> Iterator[Any]:
    conf = (
        jvm.org.apache.spark.SparkConf(True).setMaster("local[1]").setAppName("reads").set("spark.ui.enabled", "false")
    )
    context = jvm.org.apache.spark.api.java.JavaSparkContext(conf)
    yield context
    context.stop()


def broadcast(jvm: Any, context: Any, beside: Any) -> int:
    """The broadcast of an RDD and something beside it, made as Spark makes that of a task's code."""
    rdd = context.emptyRDD().rdd()
    any_class = jvm.scala.reflect.ClassTag.Any()
    serializer = jvm.org.apache.spark.SparkEnv.get().closureSerializer().newInstance()
    code = serializer.serialize(jvm.scala.Tuple2(rdd, beside), any_class).array()
    return int(context.broadcast(code).id())


def test_a_tasks_code_is_read(jvm: Any, context: Any) -> None:
    id = broadcast(jvm, context, "a function")
    code = scala_object(jvm, f"{CORE_SHIMS}.TaskReads").code(id)
    assert code._1().getClass().getName() == "org.apache.spark.rdd.EmptyRDD"
    assert code._2() == "a function"


def test_code_with_a_class_of_the_users_is_not_read(jvm: Any, context: Any) -> None:
    id = broadcast(jvm, context, jvm.org.apache.commons.lang3.mutable.MutableObject("a user's"))
    with pytest.raises(Py4JJavaError, match=r"ClassNotFoundException: org\.apache\.commons\.lang3\.mutable\.Mu"):
        scala_object(jvm, f"{CORE_SHIMS}.TaskReads").code(id)


def test_a_broadcast_that_is_gone_is_named(jvm: Any, context: Any) -> None:
    with pytest.raises(Py4JJavaError, match="NoSuchElementException: broadcast 4711 "):
        scala_object(jvm, f"{CORE_SHIMS}.TaskReads").code(4711)


def test_an_application_in_one_process_has_no_other_executors_whose_code_is_read(jvm: Any, context: Any) -> None:
    readers = scala_object(jvm, "org.apache.spark.scheduler.shims.PendingTasks")
    assert readers.codeOfReaders(context.sc(), "driver").isEmpty()
