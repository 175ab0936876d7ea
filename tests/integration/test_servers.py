"""Child processes of a test: waited for by a request, paused, killed, and never left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.errors import ClusterError
from mooring.testing.probes import accepts_connections, free_port, get_json, wait_until
from mooring.testing.processes import group_lives, is_alive
from mooring.testing.servers import ChildProcess, started_processes

SLEEPER = ["sleep", "1000"]
PARENT_OF_A_SLEEPER = ["bash", "-c", "sleep 1000 & echo $!; wait"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def http_server(log: Path, port: int) -> ChildProcess:
    (log.parent / "answer.json").write_text('{"is": "here"}')
    return ChildProcess(
        "http", [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"], log, cwd=log.parent
    )


def test_a_started_server_answers(log: Path) -> None:
    port = free_port()
    with http_server(log, port).running(ready=lambda: accepts_connections("127.0.0.1", port)) as server:
        assert get_json(f"http://127.0.0.1:{port}/answer.json") == {"is": "here"}
        assert server in started_processes()
    assert not server.is_running
    assert server not in started_processes()


def test_a_paused_server_is_alive_and_silent_until_it_is_resumed(log: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/answer.json"
    with http_server(log, port).running(ready=lambda: accepts_connections("127.0.0.1", port)) as server:
        server.pause()
        with pytest.raises(OSError):
            get_json(url, timeout=0.3)
        assert server.is_running
        server.resume()
        assert get_json(url) == {"is": "here"}


def test_a_server_that_ends_at_once_shows_its_last_words(log: Path) -> None:
    server = ChildProcess("broken", ["bash", "-c", "echo no such file; exit 3"], log)
    with pytest.raises(ClusterError, match=r"(?s)broken ended before it was ready.*ended with 3.*no such file"):
        server.start(ready=lambda: False)


def test_a_server_that_never_answers_is_killed(log: Path) -> None:
    port = free_port()
    server = ChildProcess("mute", SLEEPER, log)
    with pytest.raises(ClusterError, match=r"waited 0.2 s for mute to be ready .last answer: .*refused"):
        server.start(ready=lambda: accepts_connections("127.0.0.1", port), timeout=0.2)
    assert not server.is_running


def test_kill_takes_what_the_server_started_and_kill_leader_does_not(log: Path) -> None:
    server = ChildProcess("parent", PARENT_OF_A_SLEEPER, log)
    server.start(ready=lambda: bool(server.log_tail()))
    child = int(server.log_tail())
    server.kill_leader()
    assert not server.is_running
    assert is_alive(child)
    server.kill()
    wait_until(lambda: not is_alive(child), "the child to be gone", timeout=5)


def test_a_process_that_becomes_another_program_is_alive(tmp_path: Path, log: Path) -> None:
    script = tmp_path / "again.sh"
    script.write_text(f"exec sh {script}\n")
    with ChildProcess("becoming", ["sh", str(script)], log).running() as server:
        assert all(is_alive(server.pid) and group_lives(server.pid) for _ in range(2_000))


def test_a_server_starts_again_and_continues_its_log(log: Path) -> None:
    server = ChildProcess("twice", ["bash", "-c", "echo line"], log)
    for _ in range(2):
        server.start()
        assert server.wait(timeout=5) == 0
    assert server.log_tail() == "line\nline"


@pytest.mark.parametrize(
    "last_words", ["os.kill(os.getpid(), 9)", "os._exit(0)", "sys.exit()", "server.pause(); os._exit(0)"]
)
def test_nothing_is_left_when_the_test_run_ends_however_it_ends(last_words: str, log: Path) -> None:
    program = f"""
import os, sys, pathlib
from mooring.testing.servers import ChildProcess
log = pathlib.Path({str(log)!r})
server = ChildProcess("parent", {PARENT_OF_A_SLEEPER!r}, log)
server.start(ready=lambda: bool(server.log_tail()))
print(server.pid, server.log_tail(), flush=True)
{last_words}
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    pids = [int(word) for word in ended.stdout.split()]
    assert len(pids) == 2, ended.stderr
    try:
        wait_until(lambda: not any(map(is_alive, pids)), "both processes to be gone", timeout=5)
    finally:
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)
