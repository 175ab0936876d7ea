"""Each check of `mooring doctor`, by what it is given."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from mooring import doctor
from mooring.doctor import Finding, Verdict
from mooring.errors import MooringError
from mooring.installed_spark import InstalledSpark

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
GB = 10**9


def spark(version: str, scala: str = "2.13") -> InstalledSpark:
    return InstalledSpark("/s", version, scala)


@pytest.mark.parametrize(
    ("finding", "verdict", "words"),
    [
        (doctor.check_python("python3", "3.11.7"), Verdict.OK, "python3 is Python 3.11.7"),
        (doctor.check_python("python3", "3.10.0"), Verdict.OK, "3.10.0"),
        (doctor.check_python("python3", "3.9.18"), Verdict.WRONG, "spark.mooring.agent.python"),
        (doctor.check_python("/opt/py", None), Verdict.WRONG, "/opt/py can not be run"),
        (doctor.check_python("/opt/py", "what?"), Verdict.WRONG, "/opt/py can not be run"),
        (doctor.check_java("java", JAVA_17), Verdict.OK, "java is Java 17.0.15"),
        (doctor.check_java("java", 'java version "25" 2025-09-16'), Verdict.OK, "Java 25"),
        (doctor.check_java("java", 'java version "1.8.0_402"'), Verdict.WRONG, "install a JDK 17"),
        (doctor.check_java("/no/bin/java", None), Verdict.WRONG, "/no/bin/java can not be run"),
        (doctor.check_spark("/s", spark("4.2.0"), ["4.1", "4.2"]), Verdict.OK, "Spark 4.2.0 with Scala 2.13"),
        (doctor.check_spark("/s", spark("4.2.9"), ["4.2"]), Verdict.OK, "Spark 4.2.9"),
        (doctor.check_spark("/s", spark("3.5.1"), ["4.0", "4.2"]), Verdict.WRONG, "jars for Spark 4.0, 4.2"),
        (doctor.check_spark("/s", spark("4.2.0", "2.12"), ["4.2"]), Verdict.WRONG, "built for Scala 2.13"),
        (doctor.check_spark("/s", None, ["4.2"]), Verdict.WRONG, "there is no Spark in /s"),
        (doctor.check_spark(None, None, []), Verdict.WRONG, "there is no Spark in PySpark"),
        (doctor.check_jar("/j", {"Implementation-Version": "1.0"}, "1.0"), Verdict.OK, "/j is version 1.0"),
        (doctor.check_jar("/j", {"Implementation-Version": "0.9"}, "1.0"), Verdict.WRONG, "this command is 1.0"),
        (doctor.check_file_system(Path("/s"), "ext4", []), Verdict.OK, "/s is on ext4"),
        (doctor.check_file_system(Path("/s"), "tmpfs", []), Verdict.WARNING, "in memory"),
        (doctor.check_file_system(Path("/s"), "nfs4", []), Verdict.WARNING, "not a disk of this host"),
        (doctor.check_file_system(Path("/s"), "xfs", [Path("/t")]), Verdict.WARNING, "(/t): files are copied"),
        (doctor.check_room(Path("/s"), 50 * GB, 100 * GB), Verdict.OK, "50.0 GB of 100.0 GB"),
        (doctor.check_room(Path("/s"), 2 * GB, 100 * GB), Verdict.WARNING, "nothing is kept below 1.1 GB"),
        (doctor.check_room(Path("/s"), GB // 2, 100 * GB), Verdict.WRONG, "make room"),
        (doctor.check_room(Path("/s"), GB, 4 * GB), Verdict.OK, "1.0 GB of 4.0 GB"),
        (doctor.check_room(Path("/s"), 0, 0), Verdict.WRONG, "the file system of /s has no room for files"),
    ],
)
def test_a_check_says_what_it_has_found_and_what_to_do(finding: Finding, verdict: Verdict, words: str) -> None:
    assert finding.verdict is verdict and words in f"{finding.message}; {finding.advice}"
    assert bool(finding.advice) == (verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("environment", "python"),
    [
        ({}, "python3"),
        ({"PYSPARK_PYTHON": "/a/python3.12"}, "/a/python3.12"),
        ({"PYSPARK_PYTHON": "/a/python", "PYSPARK_DRIVER_PYTHON": "/b/pypy3"}, "/b/pypy3"),
        ({"PYSPARK_PYTHON": "/a/python", "PYSPARK_DRIVER_PYTHON": "jupyter"}, "/a/python"),
    ],
)
def test_the_agents_python_is_chosen_as_the_plugin_does(environment: dict[str, str], python: str) -> None:
    assert doctor.driver_python(environment) == python


def test_programs_are_run_and_what_can_not_be_run_is_found_wrong(tmp_path: Path) -> None:
    assert doctor.look_at_python(sys.executable).verdict is Verdict.OK
    assert doctor.look_at_python(str(tmp_path / "python3")).verdict is Verdict.WRONG
    assert doctor.look_at_java({"JAVA_HOME": str(tmp_path)}).message == f"{tmp_path}/bin/java can not be run"


@pytest.mark.needs_spark
def test_the_spark_of_spark_home_comes_before_pysparks(tmp_path: Path) -> None:
    assert doctor.look_at_spark({}, ["4.2"]).verdict is Verdict.OK
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    found = doctor.look_at_spark({"SPARK_HOME": str(tmp_path)}, ["4.2"])
    assert found.verdict is Verdict.WRONG and "Spark 3.5.1 with Scala 2.12" in found.message


def test_a_jar_that_is_missing_or_damaged_is_found_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "mooring.jar"
    monkeypatch.setattr(doctor, "jar_path", lambda: jar)
    for content in (None, b"", b"PK"):
        if content is not None:
            jar.write_bytes(content)
        assert doctor.look_at_jar("1.0").verdict is Verdict.WRONG
    with zipfile.ZipFile(jar, "w") as made:
        made.writestr("META-INF/MANIFEST.MF", "Implementation-Version: 1.0\r\nBuilt-For-Spark: 4.2.0\r\n")
    assert doctor.look_at_jar("1.0").verdict is Verdict.OK

    def refuse() -> Path:
        raise MooringError("there is no jar")

    monkeypatch.setattr(doctor, "jar_path", refuse)
    assert "there is no jar" in doctor.look_at_jar("1.0").message


def rights(root: Path) -> Finding:
    return doctor.look_at_local_store(root, [])[0]


def test_the_local_store_is_judged_as_executors_do_and_left_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    assert rights(root).message == f"{root} is not there yet, and can be made" and not root.parent.exists()
    root.mkdir(parents=True)
    root.chmod(0o755)
    assert rights(root).verdict is Verdict.OK, "executors close an empty one"
    (root / "kept").touch()
    assert rights(root).verdict is Verdict.WRONG and rights(root).advice == f"chmod 700 {root}"
    root.chmod(0o700)
    assert rights(root).message == f"{root} is this user's"
    link = tmp_path / "link"
    link.symlink_to(root)
    assert "symbolic link" in rights(link).message
    assert "is not a directory" in rights(root / "kept").message
    assert "is not a directory" in rights(root / "kept" / "below").message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_store_of_another_user_is_not_ours(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    assert f"{tmp_path} belongs to the user 65534" in rights(tmp_path).message


def test_sparks_directories_on_another_file_system_are_seen(tmp_path: Path) -> None:
    if Path("/proc").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system only")
    _, kind, room = doctor.look_at_local_store(tmp_path / "store", [Path("/proc"), tmp_path])
    assert room.subject == "room" and kind.verdict is Verdict.WARNING
    assert "in memory" in kind.message or "(/proc): files are copied" in kind.message


def test_the_kind_of_a_file_system_is_that_of_the_longest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    within = str(tmp_path / "a b").replace(" ", "\\040")
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {within} nfs4 rw 0 0\ntmpfs {tmp_path}/other tmpfs rw 0 0\n")
    assert doctor.file_system_of(tmp_path / "a b" / "store", mounts) == "nfs4"
    assert doctor.file_system_of(tmp_path, mounts) == "ext4"
    assert doctor.file_system_of(tmp_path, tmp_path / "none") == ""


def test_sparks_local_directories_are_those_of_the_environment() -> None:
    assert doctor.spark_local_dirs({}) == [Path("/tmp")]
    assert doctor.spark_local_dirs({"SPARK_LOCAL_DIRS": "/a, /b"}) == [Path("/a"), Path("/b")]
    assert doctor.spark_local_dirs({"SPARK_LOCAL_DIRS": "/a", "LOCAL_DIRS": "/yarn"}) == [Path("/yarn")]
