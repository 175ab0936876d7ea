"""What a machine lacks is said in words, with what to do."""

import pytest

from tests.unit.build.shim import check_machine, jdk


def fake_java(folder, prints, status=0):
    """A `java` that prints this and exits so; its folder, as JAVA_HOME."""
    java = folder / "bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{prints}' >&2\nexit {status}\n")
    java.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_major_version_of_java(printed, major):
    assert jdk.major_version(printed) == major


def test_a_new_enough_java_is_no_problem(tmp_path):
    assert jdk.java_problem({"JAVA_HOME": fake_java(tmp_path, 'openjdk version "17.0.1"')}) == ""


def test_an_old_java_is_named(tmp_path):
    home = fake_java(tmp_path, 'openjdk version "11.0.2"')
    assert f"{home}/bin/java is Java 11" in jdk.java_problem({"JAVA_HOME": home})


def test_a_java_that_does_not_run_is_named_with_what_it_printed(tmp_path):
    problem = jdk.java_problem({"JAVA_HOME": fake_java(tmp_path, "no runtime present", status=1)})
    assert "does not work: no runtime present" in problem


def test_no_java_at_all(tmp_path):
    assert "no java on the PATH" in jdk.java_problem({"PATH": str(tmp_path)})
    assert f"JAVA_HOME is {tmp_path}" in jdk.java_problem({"JAVA_HOME": str(tmp_path)})


def test_an_old_python_is_named():
    assert check_machine.python_problem((3, 10, 0)) == ""
    assert "is 3.9.18" in check_machine.python_problem((3, 9, 18))


def test_debians_missing_venv_is_named():
    assert check_machine.venv_problem(lambda name: object()) == ""
    assert "-venv" in check_machine.venv_problem(lambda name: None if name == "ensurepip" else object())


def test_a_system_without_linux_is_told_what_is_needed():
    assert check_machine.platform_problem("linux") == ""
    assert "Linux is needed" in check_machine.platform_problem("darwin")
