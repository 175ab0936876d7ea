"""The scripts of `mooring completion`: that for bash in a real bash, the others as far as their shell is here."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mooring.cli.commands import parser_of
from mooring.cli.main import COMMANDS, main
from tests.unit.cli.records import as_json

PARSERS = parser_of(COMMANDS).commands


def script_of(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def in_bash(script: str, then: str, directory: Path) -> list[str]:
    """The lines that bash prints when it has run the script, and then this."""
    command = ["bash", "--norc", "--noprofile", "-c", f"{script}\n{then}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=directory)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def completed(script: str, typed: list[str], directory: Path) -> list[str]:
    """What bash offers for the last of these words."""
    words = " ".join(shlex.quote(word) for word in typed)
    call = f"COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _mooring"
    return in_bash(
        script, f"{call}\n[[ ${{COMPREPLY[@]}} ]] && printf '%s\\n' \"${{COMPREPLY[@]}}\" || true", directory
    )


@pytest.fixture
def bash_script(capsys: pytest.CaptureFixture[str]) -> str:
    return script_of("bash", capsys)


def test_bash_completes_the_command(bash_script: str, tmp_path: Path) -> None:
    assert in_bash(bash_script, "complete -p mooring", tmp_path) == ["complete -F _mooring mooring"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["sta"], ["status", "states"]),
        (["place"], ["place-container"]),
        (["--ver"], ["--version"]),
        (["stop", "--mode", ""], ["after-batch", "after-available", "now"]),
        (["stop", "--mode", "=", "after-b"], ["after-batch"]),
        (["stop", "--mode", "="], ["after-batch", "after-available", "now"]),
        (["plan", "--re"], ["--remove-host"]),
        (["jar", ""], ["--help", "--json", "--spark"]),
        (["control-standby", "--processor-id", "4", "sta"], ["start"]),
        (["control-standby", "--processor-id", ""], []),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["help", "pin"], ["pin"]),
        (["history", "some"], ["some checkpoint", "some.conf"]),
        (["status", "--metadata-conf", "some."], ["some.conf"]),
        (["nonsense", ""], []),
    ],
)
def test_bash_offers_what_can_follow(typed: list[str], offered: list[str], bash_script: str, tmp_path: Path) -> None:
    (tmp_path / "some checkpoint").mkdir()
    (tmp_path / "some.conf").touch()
    assert sorted(completed(bash_script, ["mooring", *typed], tmp_path)) == sorted(offered)


def test_bash_offers_every_command_and_every_option(bash_script: str, tmp_path: Path) -> None:
    assert set(completed(bash_script, ["mooring", ""], tmp_path)) == {*PARSERS}
    for name, parser in PARSERS.items():
        offered = completed(bash_script, ["mooring", name, "--"], tmp_path)
        assert set(offered) == {word for word in parser._option_string_actions if word.startswith("--")}, name


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_scripts_name_every_command_option_and_choice(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = script_of(shell, capsys)
    for name, parser in PARSERS.items():
        assert f" {name}" in script or f"'{name}:" in script
        for action in parser._actions:
            options = [one for one in action.option_strings if one.startswith("--")]
            shown = [one if shell == "zsh" else f"-l {one[2:]}" for one in options]
            assert all(one in script for one in shown), action
            if isinstance(action, argparse._StoreAction) and action.choices:
                assert " ".join(map(str, action.choices)) in script


@pytest.mark.parametrize(("shell", "check"), [("zsh", "-n"), ("fish", "--no-execute")])
def test_the_other_scripts_are_read_by_their_shell(
    shell: str, check: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    (tmp_path / "script").write_text(script_of(shell, capsys))
    subprocess.run([shell, check, str(tmp_path / "script")], check=True, timeout=30)


def test_another_shell_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bsh"]) == 2
    assert "SHELL bsh: expected one of bash, zsh, fish; nearest: bash" in capsys.readouterr().err
    assert main(["completion", "bash", "--json"]) == 0
    assert as_json(capsys.readouterr().out)["shell"] == "bash"
