"""The files of a Maven repository, for each line of Spark. No compiler runs here."""

import hashlib
import zipfile
from xml.etree import ElementTree

import pytest

from tests.unit.build.shim import CHECKOUT, lines, publish, write_files

LINE = lines.line_of("4.1")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What is published of a checkout whose jar has one class."""
    texts = {
        "python/mooring/__init__.py": '__version__ = "1.2.3"\n',
        "scala-shim/src/main/scala/io/mooring/A.scala": "class A",
        "scala-shim/src/spark-4.1-to-4.3/io/mooring/B.scala": "class B",
        "scala-shim/src/spark-4.2/io/mooring/C.scala": "class C",
    }
    write_files(tmp_path, texts)

    def build(checkout, line, output):
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(b"the jar")

    monkeypatch.setattr(publish, "build", build)
    return publish.publish(tmp_path, LINE, tmp_path / "repository", "https://git.example/a&b/")


def test_each_file_has_the_name_that_maven_looks_for(folder):
    assert folder.parts[-4:] == ("io", "mooring", "mooring-spark-4.1_2.13", "1.2.3")
    plain = sorted(file.name for file in folder.iterdir() if file.suffix not in (".md5", ".sha1"))
    start = "mooring-spark-4.1_2.13-1.2.3"
    assert plain == [f"{start}-javadoc.jar", f"{start}-sources.jar", f"{start}.jar", f"{start}.pom"]


def test_each_file_has_its_checksums_beside_it(folder):
    for file in folder.iterdir():
        if file.suffix in (".jar", ".pom"):
            for algorithm in ("md5", "sha1"):
                beside = folder / f"{file.name}.{algorithm}"
                assert beside.read_text() == hashlib.new(algorithm, file.read_bytes()).hexdigest()


def test_the_pom_names_the_artifact_and_no_dependency(folder):
    pom = ElementTree.parse(next(folder.glob("*.pom"))).getroot()
    space = "{http://maven.apache.org/POM/4.0.0}"
    found = [pom.findtext(f"{space}{name}") for name in ("groupId", "artifactId", "version")]
    assert found == ["io.mooring", "mooring-spark-4.1_2.13", "1.2.3"]
    assert pom.find(f"{space}dependencies") is None


def test_the_pom_has_what_maven_central_asks_for(folder):
    pom = ElementTree.parse(next(folder.glob("*.pom"))).getroot()
    space = "{http://maven.apache.org/POM/4.0.0}"
    wanted = ("name", "description", "url", "licenses/license/name", "developers/developer/name", "scm/url")
    found = {path: pom.findtext("/".join(f"{space}{part}" for part in path.split("/"))) for path in wanted}
    assert all(found.values()), found
    assert found["url"] == found["scm/url"] == "https://git.example/a&b"


def test_the_sources_are_those_of_the_line(folder):
    with zipfile.ZipFile(next(folder.glob("*-sources.jar"))) as sources:
        names = [name for name in sources.namelist() if name.endswith(".scala")]
    assert names == ["io/mooring/A.scala", "io/mooring/B.scala"]


def test_the_projects_own_version_is_taken():
    assert publish.version(CHECKOUT)
