"""Scala objects of the plugin in the JVM of an application, and their private fields."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def plugins_object(spark: SparkSession, name: str) -> Any:
    """An object of the plugin's, which has come with the application's jars."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)


def private_field(owner: Any, name: str) -> Any:
    """The value of a private field. Scala may put the class's name before the name of the field."""
    fields = owner.getClass().getDeclaredFields()
    (field,) = (one for one in fields if one.getName() == name or one.getName().endswith(f"$${name}"))
    field.setAccessible(True)
    return field.get(owner)


def call_private(spark: SparkSession, owner: Any, name: str, argument: Any) -> Any:
    """Call a private method that has one parameter."""
    methods = owner.getClass().getDeclaredMethods()
    (method,) = (one for one in methods if one.getName() == name or one.getName().endswith(f"$${name}"))
    method.setAccessible(True)
    gateway: Any = spark.sparkContext._gateway
    arguments = gateway.new_array(gateway.jvm.java.lang.Object, 1)
    arguments[0] = argument
    return method.invoke(owner, arguments)
