"""The jar from a Maven repository, as `make publish-local` makes it, by `--packages`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.support.restarted_job import Stages
from tests.unit.build.shim import build_jar, publish

pytestmark = [pytest.mark.heavy, pytest.mark.one_jvm]


def test_a_job_gets_the_jar_by_its_coordinates(tmp_path: Path) -> None:
    line = build_jar.line_of_this_python()
    publish.publish(build_jar.CHECKOUT, line, tmp_path / "maven")
    artifact = f"mooring-spark-{line.name}_2.13"
    stages = Stages(tmp_path)
    by_coordinates = {
        "spark.jars": "",
        "spark.jars.packages": f"io.mooring:{artifact}:{build_jar.version(build_jar.CHECKOUT)}",
        "spark.jars.repositories": (tmp_path / "maven").as_uri(),
        "spark.jars.ivy": str(tmp_path / "ivy"),
    }
    for part in (0.5, 1.0):
        stages.run(part, by_coordinates)
    assert stages.kept_files(".zip"), "Mooring is on"
    stages.assert_right()
