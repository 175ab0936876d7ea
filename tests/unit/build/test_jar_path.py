"""Where the jar for a Spark is found, and what is said when there is none."""

from pathlib import Path

import pytest

from mooring import jar
from mooring.errors import MooringError
from mooring.installed_spark import InstalledSpark
from mooring.jar import jar_path, jars_by_line


def touched(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def of(line: str) -> str:
    return f"mooring-spark-{line}_2.13.jar"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return tmp_path / "python/mooring"


@pytest.fixture(autouse=True)
def spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jar, "installed_spark", lambda: InstalledSpark("/spark", "4.2.1", "2.13"))


def test_an_installed_package_has_its_own(package: Path, tmp_path: Path) -> None:
    touched(tmp_path / "scala-shim/build_jar.py")
    touched(tmp_path / "build" / of("4.2"))
    own = touched(package / "jars" / of("4.2"))
    assert jar_path(package=package) == own


def test_a_checkout_has_those_it_built(package: Path, tmp_path: Path) -> None:
    touched(tmp_path / "scala-shim/build_jar.py")
    built = touched(tmp_path / "build" / of("4.2"))
    assert jar_path(package=package) == built


def test_the_jar_is_that_of_the_installed_spark_or_of_the_named_one(package: Path) -> None:
    jars = {line: touched(package / "jars" / of(line)) for line in ("4.10", "4.2", "4.0")}
    assert list(jars_by_line(package)) == ["4.0", "4.2", "4.10"]
    assert jar_path(package=package) == jars["4.2"]
    assert jar_path("4.0.2", package) == jar_path("4.0", package) == jars["4.0"]


def test_a_line_without_a_jar_is_refused_with_those_that_there_are(package: Path) -> None:
    for line in ("4.0", "4.2"):
        touched(package / "jars" / of(line))
    with pytest.raises(MooringError, match=r"no jar for Spark 3\.5\.9: there are jars for Spark 4\.0, 4\.2$"):
        jar_path("3.5.9", package)
    with pytest.raises(MooringError, match=r"newest is no version of Spark: expected one such as 4\.2"):
        jar_path("newest", package)


def test_in_a_checkout_it_says_how_to_build_the_jar_of_a_line(package: Path, tmp_path: Path) -> None:
    touched(tmp_path / "scala-shim/build_jar.py")
    touched(tmp_path / "build" / of("4.2"))
    with pytest.raises(MooringError, match=r"build_jar\.py --spark 4\.1` builds one"):
        jar_path("4.1", package)


def test_without_a_spark_the_only_jar_is_taken_and_of_several_one_is_to_be_named(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jar, "installed_spark", lambda: None)
    only = touched(package / "jars" / of("4.2"))
    assert jar_path(package=package) == only
    touched(package / "jars" / of("4.3"))
    with pytest.raises(MooringError, match=r"such as --spark 4\.3; there are jars for Spark 4\.2, 4\.3"):
        jar_path(package=package)


def test_a_checkout_without_one_says_how_to_build_it(package: Path, tmp_path: Path) -> None:
    touched(tmp_path / "scala-shim/build_jar.py")
    with pytest.raises(MooringError, match="make jar"):
        jar_path(package=package)


def test_an_installed_package_without_one_says_so(package: Path) -> None:
    with pytest.raises(MooringError, match="installed without its jars"):
        jar_path(package=package)
