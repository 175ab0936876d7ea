"""setuptools, with one difference: a wheel holds the jar, and building the jar takes PySpark's jars.

An editable install finds the jar in build/ (`make jar`), so it need not wait for PySpark to arrive twice.
"""

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

PYSPARK = "pyspark==4.2.0"


def get_requires_for_build_wheel(config_settings=None):
    return [*build_meta.get_requires_for_build_wheel(config_settings), PYSPARK]
