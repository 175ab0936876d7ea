"""What goes into the jar, and when it is built anew. No compiler runs here: a folder of ready classes stands in."""

import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from mooring.settings import TABLE
from tests.unit.build.shim import CHECKOUT, build_jar, packing


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one Scala source, one resource, a package and a table of settings of its own."""
    for name, text in {
        "scala-shim/build_jar.py": "",
        "scala-shim/packing.py": "",
        "scala-shim/src/main/scala/A.scala": "class A",
        "scala-shim/src/main/spark-4.2/B.scala": "class B",
        "scala-shim/src/main/spark-4.3/B.scala": "class B of another line",
        "scala-shim/src/main/resources/META-INF/services/x.Y": "io.mooring.A\n",
        "python/mooring/__init__.py": '__version__ = "1.2.3"\n',
        "python/mooring/settings.py": 'print(\'[{"key": "spark.mooring.enabled"}]\')\n',
        "python/mooring/jars/mooring.jar": "an earlier build",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def compilations(monkeypatch):
    """Stands in for the compiler: says which sources it was given, and makes one class file."""
    calls = []

    def compile_none(sources, jars, classes, force):
        calls.append(list(sources))
        classes.mkdir(parents=True, exist_ok=True)
        (classes / "A.class").write_bytes(b"class A")
        return classes

    monkeypatch.setattr(build_jar, "compiled", compile_none)
    monkeypatch.setattr(build_jar, "spark_jars", lambda: CHECKOUT)
    return calls


def entries(jar):
    with zipfile.ZipFile(jar) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_jar_holds_classes_resources_settings_and_the_agent(checkout, compilations):
    assert build_jar.build(checkout, checkout / "build/mooring.jar")
    content = entries(checkout / "build/mooring.jar")
    assert sorted(content) == [
        "A.class",
        packing.MANIFEST,
        "META-INF/services/x.Y",
        "mooring-agent.zip",
        "settings.json",
    ]
    assert json.loads(content["settings.json"]) == [{"key": "spark.mooring.enabled"}]
    assert b"\r\nImplementation-Version: 1.2.3\r\n" in content[packing.MANIFEST]
    assert compilations == [["scala/A.scala", "spark-4.2/B.scala"]]


def test_the_agent_is_the_package_without_an_earlier_jar(checkout, compilations):
    build_jar.build(checkout, checkout / "build/mooring.jar")
    agent = entries(io.BytesIO(entries(checkout / "build/mooring.jar")["mooring-agent.zip"]))
    assert sorted(agent) == ["mooring/__init__.py", "mooring/settings.py"]


def test_python_imports_the_agent_from_its_zip(checkout, compilations, tmp_path):
    archive = tmp_path / "agent.zip"
    archive.write_bytes(build_jar.agent_zip(checkout / "python"))
    assert zipimport.zipimporter(str(archive)).find_spec("mooring") is not None


@pytest.mark.slow  # compiles every module that the agent imports
def test_the_agents_zip_has_each_module_that_it_starts_with(tmp_path):
    archive = tmp_path / "agent.zip"
    archive.write_bytes(build_jar.agent_zip(CHECKOUT / "python"))
    search = [str(archive), *(path for path in sys.path if path and not Path(path).is_relative_to(CHECKOUT / "python"))]
    script = (
        f"import sys; sys.path = {search!r}\n"
        "import mooring.agent.__main__, mooring.records.open\n"
        "print(mooring.agent.__main__.__file__)"
    )
    ran = subprocess.run([sys.executable, "-c", script], env={}, capture_output=True, text=True)
    assert ran.stdout.startswith(str(archive)), ran.stderr


def test_two_builds_are_the_same_to_the_byte(checkout, compilations):
    one, two = checkout / "build/one.jar", checkout / "build/two.jar"
    build_jar.build(checkout, one)
    os.utime(checkout / "python/mooring/__init__.py", (0, 0))
    build_jar.build(checkout, two)
    assert one.read_bytes() == two.read_bytes()


def test_a_jar_of_the_same_inputs_is_left_alone(checkout, compilations):
    jar = checkout / "build/mooring.jar"
    build_jar.build(checkout, jar)
    assert not build_jar.build(checkout, jar)
    assert build_jar.build(checkout, jar, force=True)


CHANGED = {
    "python/mooring/__init__.py": '__version__ = "1.2.4"\n',
    "scala-shim/src/main/scala/A.scala": "class B",
    "scala-shim/src/main/resources/META-INF/services/x.Y": "io.mooring.B\n",
    "scala-shim/build_jar.py": "# other options",
}


@pytest.mark.parametrize("changed", CHANGED)
def test_a_changed_input_builds_it_anew(checkout, compilations, changed):
    jar = checkout / "build/mooring.jar"
    build_jar.build(checkout, jar)
    (checkout / changed).write_text(CHANGED[changed])
    assert build_jar.build(checkout, jar)


def test_a_removed_source_builds_it_anew(checkout, compilations):
    jar = checkout / "build/mooring.jar"
    build_jar.build(checkout, jar)
    (checkout / "scala-shim/src/main/scala/A.scala").unlink()
    assert build_jar.build(checkout, jar)


def test_a_damaged_jar_is_built_anew(checkout, compilations):
    jar = checkout / "build/mooring.jar"
    build_jar.build(checkout, jar)
    jar.write_bytes(jar.read_bytes()[:100])
    assert build_jar.build(checkout, jar)


def test_a_table_of_settings_that_fails_is_told_with_its_reason(checkout, compilations):
    (checkout / "python/mooring/settings.py").write_text("raise RuntimeError('two rows of one key')")
    with pytest.raises(build_jar.CannotBuild, match="two rows of one key"):
        build_jar.build(checkout, checkout / "build/mooring.jar")
    assert not (checkout / "build/mooring.jar").exists()


def test_the_jars_settings_are_the_table():
    rows = json.loads(build_jar.settings_json(CHECKOUT / "python"))
    assert [row["key"] for row in rows] == [setting.key for setting in TABLE]


def test_the_project_has_a_version_that_the_build_can_read():
    assert re.fullmatch(r"\d+\.\d+\.\d+", build_jar.version(CHECKOUT))


def test_one_version_of_spark_stands_everywhere():
    pinned = f"pyspark=={build_jar.SPARK_VERSION}"
    assert f'dependencies = ["{pinned}"]' in (CHECKOUT / "pyproject.toml").read_text("utf-8")
    assert f'"{pinned}"' in (CHECKOUT / "scripts/build_backend.py").read_text("utf-8")


def test_without_pyspark_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(build_jar.CannotBuild, match=r"pip install pyspark==4\.2\.0"):
        build_jar.spark_jars()


def test_another_spark_is_refused(tmp_path):
    (tmp_path / "spark-core_2.13-4.1.0.jar").touch()
    assert build_jar.spark_version(tmp_path) == "4.1.0"
    assert build_jar.spark_version(tmp_path / "none") == "unknown"
