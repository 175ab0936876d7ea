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

import py4j
import pytest

from mooring.settings import TABLE
from tests.unit.build.shim import CHECKOUT, build_jar, lines, packing, write_files

LINE = lines.line_of("4.2")


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one Scala source, one resource, a package and a table of settings of its own."""
    texts = {
        "scala-shim/build_jar.py": "",
        "scala-shim/packing.py": "",
        "scala-shim/src/main/scala/A.scala": "class A",
        "scala-shim/lines.py": "",
        "scala-shim/src/spark-4.2/B.scala": "class B",
        "scala-shim/src/spark-4.3/B.scala": "class B of another line",
        "scala-shim/src/spark-4.1-to-4.3/C.scala": "class C",
        "scala-shim/src/main/resources/META-INF/services/x.Y": "io.mooring.A\n",
        "python/mooring/__init__.py": '__version__ = "1.2.3"\n',
        "python/mooring/settings.py": 'print(\'[{"key": "spark.mooring.enabled"}]\')\n',
        "python/mooring/jars/mooring-spark-4.2_2.13.jar": "an earlier build",
    }
    write_files(tmp_path, texts)
    jars_of_spark(tmp_path)
    return tmp_path


def jars_of_spark(folder):
    """The folder of jars of a Spark in `folder`, which has this Python's py4j where PySpark has its own."""
    library = folder / "spark/python/lib"
    library.mkdir(parents=True)
    with zipfile.ZipFile(library / "py4j-0.10.9.9-src.zip", "w") as archive:
        for module in Path(py4j.__file__).parent.glob("*.py"):
            archive.write(module, f"py4j/{module.name}")
    return folder / "spark/jars"


@pytest.fixture
def compilations(monkeypatch, checkout):
    """Stands in for the compiler: says which sources it was given, and makes one class file."""
    calls = []

    def compile_none(sources, jars, classes, force):
        calls.append(list(sources))
        classes.mkdir(parents=True, exist_ok=True)
        (classes / "A.class").write_bytes(b"class A")
        return classes

    monkeypatch.setattr(build_jar, "compiled", compile_none)
    monkeypatch.setattr(build_jar, "spark_jars", lambda line: checkout / "spark/jars")
    return calls


def entries(jar):
    with zipfile.ZipFile(jar) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_jar_holds_classes_resources_settings_and_the_agent(checkout, compilations):
    assert build_jar.build(checkout, LINE, checkout / "build/mooring.jar")
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
    assert compilations == [["scala/A.scala", "spark-4.1-to-4.3/C.scala", "spark-4.2/B.scala"]]


def test_the_agent_is_the_package_without_an_earlier_jar(checkout, compilations):
    build_jar.build(checkout, LINE, checkout / "build/mooring.jar")
    agent = entries(io.BytesIO(entries(checkout / "build/mooring.jar")["mooring-agent.zip"]))
    assert [name for name in sorted(agent) if name.startswith("mooring")] == [
        "mooring/__init__.py",
        "mooring/settings.py",
    ]


def test_the_agent_comes_with_the_py4j_of_its_spark(checkout, compilations):
    build_jar.build(checkout, LINE, checkout / "build/mooring.jar")
    agent = entries(io.BytesIO(entries(checkout / "build/mooring.jar")["mooring-agent.zip"]))
    assert agent["py4j/clientserver.py"] == Path(py4j.__file__).with_name("clientserver.py").read_bytes()


def test_a_spark_without_py4j_is_named(checkout, compilations):
    next((checkout / "spark/python/lib").iterdir()).unlink()
    with pytest.raises(build_jar.CannotBuild, match=r"no py4j-\*-src.zip in .*spark/python/lib"):
        build_jar.build(checkout, LINE, checkout / "build/mooring.jar")


def test_python_imports_the_agent_from_its_zip(checkout, compilations, tmp_path):
    archive = tmp_path / "agent.zip"
    archive.write_bytes(build_jar.agent_zip(checkout / "python", checkout / "spark/jars"))
    assert zipimport.zipimporter(str(archive)).find_spec("mooring") is not None


@pytest.mark.slow  # compiles every module that the agent imports
def test_the_agents_zip_has_each_module_that_it_starts_with_and_needs_no_pyspark(tmp_path):
    archive = tmp_path / "agent.zip"
    archive.write_bytes(build_jar.agent_zip(CHECKOUT / "python", jars_of_spark(tmp_path)))
    search = [str(archive), *(path for path in sys.path if path and not Path(path).is_relative_to(CHECKOUT / "python"))]
    script = (
        f"import sys; sys.path = {search!r}; sys.modules['pyspark'] = None\n"
        "import mooring.agent.__main__, mooring.records.open, mooring.spark.gateway, py4j\n"
        "print(mooring.agent.__main__.__file__, py4j.__file__)"
    )
    ran = subprocess.run([sys.executable, "-c", script], env={}, capture_output=True, text=True)
    assert ran.stdout.count(str(archive)) == 2, ran.stderr


def test_two_builds_are_the_same_to_the_byte(checkout, compilations):
    one, two = checkout / "build/one.jar", checkout / "build/two.jar"
    build_jar.build(checkout, LINE, one)
    os.utime(checkout / "python/mooring/__init__.py", (0, 0))
    build_jar.build(checkout, LINE, two)
    assert one.read_bytes() == two.read_bytes()


def test_a_jar_of_the_same_inputs_is_left_alone(checkout, compilations):
    jar = checkout / "build/mooring.jar"
    build_jar.build(checkout, LINE, jar)
    assert not build_jar.build(checkout, LINE, jar)
    assert build_jar.build(checkout, LINE, jar, force=True)


CHANGED = {
    "python/mooring/__init__.py": '__version__ = "1.2.4"\n',
    "scala-shim/src/main/scala/A.scala": "class B",
    "scala-shim/src/main/resources/META-INF/services/x.Y": "io.mooring.B\n",
    "scala-shim/build_jar.py": "# other options",
}


@pytest.mark.parametrize("changed", CHANGED)
def test_a_changed_input_builds_it_anew(checkout, compilations, changed):
    jar = checkout / "build/mooring.jar"
    build_jar.build(checkout, LINE, jar)
    (checkout / changed).write_text(CHANGED[changed])
    assert build_jar.build(checkout, LINE, jar)


def test_a_removed_source_builds_it_anew(checkout, compilations):
    jar = checkout / "build/mooring.jar"
    build_jar.build(checkout, LINE, jar)
    (checkout / "scala-shim/src/main/scala/A.scala").unlink()
    assert build_jar.build(checkout, LINE, jar)


def test_a_damaged_jar_is_built_anew(checkout, compilations):
    jar = checkout / "build/mooring.jar"
    build_jar.build(checkout, LINE, jar)
    jar.write_bytes(jar.read_bytes()[:100])
    assert build_jar.build(checkout, LINE, jar)


def test_a_table_of_settings_that_fails_is_told_with_its_reason(checkout, compilations):
    (checkout / "python/mooring/settings.py").write_text("raise RuntimeError('two rows of one key')")
    with pytest.raises(build_jar.CannotBuild, match="two rows of one key"):
        build_jar.build(checkout, LINE, checkout / "build/mooring.jar")
    assert not (checkout / "build/mooring.jar").exists()


def test_the_jars_settings_are_the_table():
    rows = json.loads(build_jar.settings_json(CHECKOUT / "python"))
    assert [row["key"] for row in rows] == [setting.key for setting in TABLE]


def test_the_project_has_a_version_that_the_build_can_read():
    assert re.fullmatch(r"\d+\.\d+\.\d+", build_jar.version(CHECKOUT))


def test_a_file_that_two_folders_have_for_one_line_is_refused(checkout, compilations):
    (checkout / "scala-shim/src/spark-4.1-to-4.3/B.scala").write_text("class B")
    with pytest.raises(build_jar.CannotBuild, match=r"both spark-4\.1-to-4\.3 and spark-4\.2 have B\.scala"):
        build_jar.build(checkout, LINE, checkout / "build/mooring.jar")


@pytest.mark.parametrize(
    ("folder", "has"),
    [("spark-4.2", True), ("spark-4.1-to-4.3", True), ("spark-4.2-to-4.3", True), ("spark-4.0-to-4.1", False)],
)
def test_a_folder_is_named_by_the_lines_that_it_is_for(folder, has):
    assert LINE.has(folder) is has


def test_a_folder_that_names_no_line_is_refused():
    with pytest.raises(ValueError, match=r"spark-new: expected a name such as spark-4\.2"):
        LINE.has("spark-new")


@pytest.mark.parametrize("line", lines.LINES, ids=lambda line: line.name)
def test_each_line_has_each_file_once(line):
    assert build_jar.scala_sources(CHECKOUT / "scala-shim/src", line)


@pytest.mark.parametrize(
    ("version", "name"), [("4.0.2", "4.0"), ("4.2", "4.2"), ("4.3.0-SNAPSHOT", "4.3"), ("3.5.9", None)]
)
def test_the_line_of_a_version(version, name):
    line = lines.line_of(version)
    assert (line and line.name) == name


def test_without_pyspark_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(build_jar.CannotBuild, match=r"pip install pyspark"):
        build_jar.line_of_this_python()


def test_a_spark_without_a_jar_is_refused(tmp_path, monkeypatch):
    (tmp_path / "spark-core_2.13-3.5.9.jar").touch()
    monkeypatch.setattr(build_jar, "own_jars", lambda: tmp_path)
    with pytest.raises(
        build_jar.CannotBuild, match=r"is Spark 3\.5\.9; there are jars for the lines 4\.0, 4\.1, 4\.2, 4\.3"
    ):
        build_jar.line_of_this_python()


def test_a_line_that_is_not_known_is_refused(capsys):
    assert build_jar.main(["--spark", "3.5"]) == 1
    assert "--spark 3.5: expected one of 4.0, 4.1, 4.2, 4.3, or all" in capsys.readouterr().err


def test_a_spark_that_pip_can_not_fetch_is_told_with_pips_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("MOORING_CACHE", str(tmp_path))
    monkeypatch.setattr(lines, "own_jars", lambda: None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(build_jar.CannotBuild, match=r"(?s)pip download pyspark==4\.2\.1.*No matching distribution"):
        build_jar.spark_jars(LINE)
    assert list(tmp_path.iterdir()) == [], "nothing is left half done"
