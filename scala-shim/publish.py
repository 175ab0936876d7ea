#!/usr/bin/env python3
"""Put the jars into a Maven repository on this machine, in the form that Maven Central wants.

    python scala-shim/publish.py [--spark 4.2 | --spark all] [--repository build/maven] [--home URL]

Each line of Spark gets `io/mooring/mooring-spark-LINE_2.13/VERSION/` with the jar, its POM, the sources, a jar with a
readme in place of API pages (there is no API for Scala), and the checksums of each. Then

    spark-submit --packages io.mooring:mooring-spark-4.2_2.13:0.1.0 --repositories file:///…/build/maven …

Maven Central also wants the address of the project and of its sources in the POM: `--home`, where one releases.

Exit 0 done, 1 something is missing or does not compile. Signatures are made where the jars are released.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parent))

from build_jar import CHECKOUT, CannotBuild, build, scala_sources, version, wanted_lines
from lines import SCALA, Line
from packing import MANIFEST, manifest, packed

GROUP = "io.mooring"
_POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <packaging>jar</packaging>
  <name>Mooring for Spark {line}</name>
  <description>Keeps the state of a Spark Structured Streaming query where the query runs</description>
  <licenses>
    <license>
      <name>Apache-2.0</name>
      <url>https://www.apache.org/licenses/LICENSE-2.0</url>
    </license>
  </licenses>
  <developers>
    <developer>
      <name>The developers of Mooring</name>
    </developer>
  </developers>
{home}  <!-- No dependencies: Spark has all that the plugin needs. -->
</project>
"""
_HOME = """  <url>{home}</url>
  <scm>
    <connection>scm:git:{home}.git</connection>
    <url>{home}</url>
  </scm>
"""
_NO_API = "Mooring is switched on by spark.plugins=io.mooring.MooringPlugin. It has no API for Scala or Java.\n"


def publish(checkout: Path, line: Line, repository: Path, home: str = "") -> Path:
    """Write all files of one line; the folder they are in. CannotBuild when the jar can not be built.

    `home` is the address of the project's git repository without `.git`, for the POM.
    """
    number, artifact = version(checkout), f"mooring-spark-{line.name}_{SCALA}"
    jar = checkout / "build" / line.jar
    build(checkout, line, jar)
    folder = repository / GROUP.replace(".", "/") / artifact / number
    folder.mkdir(parents=True, exist_ok=True)
    title = {MANIFEST: manifest({"Implementation-Title": "Mooring", "Implementation-Version": number})}
    sources = {name.partition("/")[2]: file.read_bytes() for name, file in _sources(checkout, line).items()}
    files = {
        ".jar": jar.read_bytes(),
        ".pom": _pom(artifact, number, line, home).encode(),
        "-sources.jar": packed({**title, **sources}),
        "-javadoc.jar": packed({**title, "README.txt": _NO_API.encode()}),
    }
    for ending, content in files.items():
        file = folder / f"{artifact}-{number}{ending}"
        file.write_bytes(content)
        for algorithm in ("md5", "sha1"):
            file.with_name(f"{file.name}.{algorithm}").write_text(hashlib.new(algorithm, content).hexdigest())
    return folder


def _pom(artifact: str, number: str, line: Line, home: str) -> str:
    address = _HOME.format(home=escape(home.rstrip("/"))) if home else ""
    return _POM.format(group=GROUP, artifact=artifact, version=number, line=line.name, home=address)


def _sources(checkout: Path, line: Line) -> dict[str, Path]:
    return scala_sources(checkout / "scala-shim/src", line)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Put the jars into a Maven repository on this machine.")
    parser.add_argument("--spark", metavar="LINE", help="a line of Spark, or `all`; default: that of this PySpark")
    parser.add_argument("--repository", type=Path, default=CHECKOUT / "build/maven", help="default: build/maven")
    parser.add_argument("--home", default="", metavar="URL", help="the project's git repository, for the POM")
    options = parser.parse_args(arguments)
    try:
        for line in wanted_lines(options.spark):
            print(publish(CHECKOUT, line, options.repository.absolute(), options.home))
    except CannotBuild as problem:
        print(f"publish: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
