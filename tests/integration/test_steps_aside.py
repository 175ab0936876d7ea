"""Whatever of Mooring is broken, the query's answer is right, and the log says once what is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mooring.errors import ClusterError
from mooring.testing.probes import wait_until
from mooring.testing.processes import descendants, is_alive
from mooring.testing.servers import ChildProcess
from tests.integration.support.job_with_warm_copies import CHANGELOG
from tests.integration.support.restarted_job import Stages, opened, said

pytestmark = pytest.mark.one_jvm


def test_no_python_on_the_driver(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, {"spark.mooring.agent.python": "/no/such/python3"})
    assert said(log, "no agent could be started") == 1
    assert stages.kept_files(".zip"), "the host still keeps state files"
    stages.assert_right()


@pytest.mark.heavy
def test_a_python_that_lacks_what_the_agent_needs(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'py4j'\"\nexit 1\n")
    python.chmod(0o700)
    stages = Stages(tmp_path)
    log = stages.run(1.0, {"spark.mooring.agent.python": str(python)})
    assert said(log, "no agent could be started (ModuleNotFoundError: No module named 'py4j')") == 1
    assert said(log, "the agent ended") == 0
    stages.assert_right()


@pytest.mark.heavy
def test_an_agent_that_can_not_live(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, {"spark.mooring.agent.python": "/bin/false"})
    assert 1 <= said(log, "the agent ended with exit code 1") <= 3
    stages.assert_right()


@pytest.mark.heavy
def test_an_agent_that_is_killed_ten_times(tmp_path: Path) -> None:
    stages, killed = Stages(tmp_path, "until_told"), []

    def kill_ten_agents(driver: ChildProcess) -> None:
        while len(killed) < 10:
            pid = _agent_of(driver)
            if pid not in killed:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        (stages.input / "STOP").touch()

    stages.run(1.0, during=kill_ten_agents)
    assert len(set(killed)) == 10
    stages.assert_right()


@pytest.mark.heavy
def test_an_agent_that_hangs(tmp_path: Path) -> None:
    stages, metadata = Stages(tmp_path, "until_told"), tmp_path / "metadata"

    def stop_the_agent(driver: ChildProcess) -> None:
        wait_until(lambda: any(metadata.glob("k-status*")), "the agent to work", 120, story=driver.story)
        pid = _agent_of(driver)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: not is_alive(pid), "the silent agent to be killed", 60, story=driver.story)
        assert _agent_of(driver) != pid
        (stages.input / "STOP").touch()

    conf = {"spark.mooring.agent.liveness.timeout": "2s", "spark.mooring.metadata": str(metadata)}
    log = stages.run(1.0, conf, during=stop_the_agent)
    assert said(log, "the agent was silent for more than 2 s and was killed") >= 1
    stages.assert_right()


@pytest.mark.heavy
def test_a_local_store_that_can_not_be_made(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    (tmp_path / "a-file").touch()
    log = stages.run(1.0, env={"MOORING_LOCAL_STORE_DIR": str(tmp_path / "a-file" / "store")})
    assert said(log, "the local store") == 1 and said(log, "can not be used") == 1
    stages.assert_right()


@pytest.mark.heavy
def test_a_local_store_of_somebody_else(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    stages.local_store.symlink_to(elsewhere)
    log = stages.run(1.0)
    assert said(log, "can not be used") == 1
    assert not list(elsewhere.iterdir())
    stages.assert_right()


@pytest.mark.heavy
def test_a_local_store_on_another_file_system(tmp_path: Path) -> None:
    other = Path("/dev/shm") / f"mooring-test-{os.getpid()}"
    if not other.parent.is_dir() or os.stat(other.parent).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("this machine has no second file system to write to")
    stages = Stages(tmp_path)
    try:
        log = stages.run(0.5, env={"MOORING_LOCAL_STORE_DIR": str(other)})
        assert said(log, "files are copied instead of linked") == 1
        openings = opened(stages.run(1.0, env={"MOORING_LOCAL_STORE_DIR": str(other)}))
        assert sum(opening["remote-bytes"] for opening in openings) == 0
        assert oct(other.stat().st_mode & 0o777) == "0o700"
    finally:
        shutil.rmtree(other, ignore_errors=True)
    stages.assert_right()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte with nothing free but room for directories."""
    disk = tmp_path / "full disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True).returncode:
        pytest.skip("only a superuser can make a file system that is full")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.heavy
@pytest.mark.parametrize("free", [16 * 1024, 128 * 1024], ids=["from_the_start", "soon"])
def test_a_local_store_that_is_full(tmp_path: Path, full_disk: Path, free: int) -> None:
    stages = Stages(tmp_path)
    (full_disk / "of somebody else").write_bytes(b"\0" * (1024 * 1024 - free))
    env = {"MOORING_LOCAL_STORE_DIR": str(full_disk / "store")}
    logs = [stages.run(part, env=env) for part in (0.5, 1.0)]
    for log in logs:
        assert said(log, "nothing more is kept until there is room") + said(log, "No space left on device") >= 1
    assert said(logs[0], "nothing more is kept until there is room") <= 1
    assert (full_disk / "of somebody else").exists()
    stages.assert_right()


def _keep_half_of(path: Path) -> None:
    """As if only half had come: under a name that fits."""
    name, _, _, mtime = path.name.split("~")
    half = path.read_bytes()[: path.stat().st_size // 2]
    path.unlink()
    path.with_name(f"{name}~{len(half)}~{crc32c(half):x}~{mtime}").write_bytes(half)


def crc32c(data: bytes) -> int:
    """Bit by bit, for a few kilobytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _flip_a_bit(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


DAMAGES = [_flip_a_bit, Path.unlink, _truncate, _empty]


@pytest.mark.heavy
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_damaged_files_of_the_local_store(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    stages = Stages(tmp_path)
    stages.run(0.5)
    kept = [path for ending in (".sst", ".zip", ".changelog") for path in stages.kept_files(ending)]
    assert kept
    for path in kept:
        damage(path)
    log = stages.run(1.0)
    assert sum(opening["remote-files"] for opening in opened(log)) > 0, "the checkpoint stays the truth"
    if damage is not Path.unlink:
        assert said(log, "its content is not what was kept") > 0
    stages.assert_right()


@pytest.mark.heavy
@pytest.mark.parametrize("ending", [".zip", ".changelog"])
def test_files_that_were_damaged_when_they_came(tmp_path: Path, ending: str) -> None:
    # Its own name proves what is kept, but that is not what the checkpoint has: opening fails until it is let go of.
    stages = Stages(tmp_path)
    conf = {CHANGELOG: str(ending == ".changelog").lower()}
    stages.run(0.5, conf)
    kept = stages.kept_files(ending)
    assert kept
    for path in kept:
        _keep_half_of(path)
    log = stages.run(1.0, conf)
    assert sum(opening["remote-files"] + opening["remote-changelogs"] for opening in opened(log)) > 0
    stages.assert_right()


@pytest.mark.heavy
def test_files_that_are_damaged_while_the_store_is_open(tmp_path: Path) -> None:
    # A kept file and the open RocksDB's file are one and the same: the damage reaches the running query.
    stages = Stages(tmp_path, "until_told")

    def damage_what_is_there(driver: ChildProcess) -> None:
        wait_until(lambda: len(stages.kept_files(".sst")) >= 3, "state files", 90)
        for path in stages.kept_files(".sst"):
            _flip_a_bit(path)
        (stages.input / "STOP").touch()

    stages.run(1.0, during=damage_what_is_there)
    stages.assert_right()


@pytest.mark.heavy
def test_a_metadata_directory_that_is_none(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    (tmp_path / "metadata").write_text("not a directory")
    log = stages.run(1.0, {"spark.mooring.metadata": str(tmp_path / "metadata")})
    assert said(log, "queries are not affected") + said(log, "can not be opened") >= 1
    stages.assert_right()


@pytest.mark.heavy
def test_a_metadata_directory_with_half_files(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    conf = {"spark.mooring.metadata": str(tmp_path / "metadata")}
    stages.run(0.4, conf)
    records = records_in(tmp_path / "metadata")
    for path in records:
        _truncate(path)
    log = stages.run(0.7, conf)
    assert said(log, f"the note of who keeps the records in {tmp_path / 'metadata'} is damaged") == 1

    for path in records_in(tmp_path / "metadata" / "application-2"):
        if "owners" not in path.name:
            _truncate(path)
    log = stages.run(1.0, conf)
    assert said(log, "is ignored") >= 1
    stages.assert_right()


def records_in(directory: Path) -> list[Path]:
    found = [path for path in directory.iterdir() if path.is_file() and not path.name.startswith(".")]
    assert found
    return found


def test_a_setting_that_is_misspelt_stops_the_application_at_its_start(tmp_path: Path) -> None:
    log = Stages(tmp_path).run(1.0, {"spark.mooring.local.store.dri": "/tmp/x"}, expect=1)
    key = "spark.mooring.local.store."
    assert f"{key}dri=/tmp/x: there is no such setting; nearest valid name: {key}dir" in log


@pytest.mark.heavy
def test_switched_off_it_is_not_there(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    stages.run(1.0, {"spark.mooring.enabled": "false"})
    assert not stages.local_store.exists()
    stages.assert_right()


def _agent_of(driver: ChildProcess) -> int:
    """The process id of the driver's living agent, once there is one."""
    found: list[int] = []

    def there_is_one() -> bool:
        if not driver.is_running:
            raise ClusterError(driver.story())
        found[:] = [child.pid for child in descendants(driver.pid) if child.option("-m") == "mooring.agent"]
        return bool(found)

    wait_until(there_is_one, "an agent", 90)
    return found[0]
