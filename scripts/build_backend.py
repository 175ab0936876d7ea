"""The build backend: setuptools, and for a wheel also PySpark, because a wheel has the jar and the jar needs PySpark.

An editable install takes the jar from build/ (`make jar`), so it does not install PySpark a second time.
"""

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

PYSPARK = "pyspark==4.2.0"


def get_requires_for_build_wheel(config_settings=None):
    return [*build_meta.get_requires_for_build_wheel(config_settings), PYSPARK]
