"""Runs what the pages tell a reader to type, on a small cluster of this machine, and says of each line how it was run.

    python -m scripts.run_pages                          what is on all pages
    python -m scripts.run_pages docs/guides/drain.md     what is on this page
    python -m scripts.run_pages --all                    also what builds or installs: make, pip, the tests by name
    python -m scripts.run_pages --outputs FILE           what was printed, to compare it with the pages

It starts three hosts, and ZooKeeper or Kafka where a page names them. A `spark-submit` of a page submits a job with two
queries, and the page's next commands are for that application. Other pages get an application that is started as the
quick start says. Commands in sentences are not run; `tests/unit/docs` looks whether they exist.

One line for each command: where it stands, exit code, seconds, the command as it was run. Exit code 1: a command
failed, or is neither run nor skipped for one of the reasons in `SKIPPED`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mooring.errors import MooringError
from scripts.page_scene import PATIENCE_SECONDS, SUBMIT, Application, Scene, environment
from scripts.pages import PAGES, ROOT, Typed, typed_in

PLACE_HOLDERS: Final[Mapping[str, Callable[[Scene], str]]] = {
    r"…$": lambda scene: SUBMIT.removeprefix("spark-submit "),
    r"(?:/data)?/checkpoints(?=/)": lambda scene: str(scene.application.checkpoints),
    r"<checkpoint>": lambda scene: str(scene.application.checkpoints / "clicks"),
    r"/data/ops(?=/state_versions)": lambda scene: str(scene.application.checkpoints / "clicks" / "_mooring"),
    r"(?<=--local-store )/data/mooring": lambda scene: str(scene.cluster.hosts[scene.hosts[0]].local_store),
    r"/data(?=/(?:audit|out|mooring))|/shared(?=/_mooring)|/tmp(?=/kafka-try)": lambda scene: str(scene.folder),
    r"(?<==)tmp_path": lambda scene: f'"{scene.folder}"',
    r"host1:2181,host2:2181,host3:2181": lambda scene: scene.zookeeper.hosts,
    r"host1:2181": lambda scene: scene.zookeeper.nodes[0].address,
    r"broker-1:9092,broker-2:9092": lambda scene: scene.kafka.servers,
    r"<password>": lambda scene: "secret",
    r"(?<=: )password(?=})": lambda scene: '"secret"',
    r"(?<=--processor-id )4|(?<=--move )4(?==)|(?<=\")4(?=\")": lambda scene: scene.processor,
    r"\b10\.0\.0\.7\b": lambda scene: scene.hosts[2],
    r"\b10\.0\.0\.8\b": lambda scene: scene.hosts[1],
    r"\b1204\b": lambda scene: scene.batch,
    r"\b88b0d30c-[\w-]+": lambda scene: scene.request,
    r"(?<=--executor-id )3\b": lambda scene: str(scene.application.status()["hosts"][0]["executors"][0]),
    r"\bapp-20261126161000-0000\b": lambda scene: str(scene.application.status()["application"]),
    r"/path/a\.jar,/path/b\.jar": lambda scene: ",".join(map(str, Path.home().glob(".ivy2*/jars/io.delta_*.jar"))),
}
"""What stands on the pages for something of the reader's, and what is put there."""

SKIPPED: Final = {
    r"^make (test|demo)$": "takes minutes, and is a run of its own",
    r"pytest_plugins|^# test_my_job.py|^def write": "a part of a program of the reader's",
    r"SASL_SSL": "needs a server with TLS and logins, as tests/contract has it",
    r"^(aws|docker|yarn|kubectl) |\| kubectl |--master (yarn|k8s)|/etc/spark/conf/": "needs YARN, EMR or Kubernetes",
    r"^sudo |^ps ": "for each node of a cluster of the reader's",
    r"^cat common\.conf|^ls /usr/bin/python3|^pip3 |^grep .*HADOOP_CONF_DIR": "for files of the reader's",
}
BUILDS: Final = {r"^(make|pip|PYTHONPATH=|MOORING_LINES=)": "builds or installs: run with --all"}
BUILD_SECONDS: Final = 900.0

ENDED: Final = r"^mooring (verify|restore|pin|export|drain --checkpoint|plan .*--checkpoint)\b|^head |--catalog"
RUNNING: Final = r"^mooring (?!conf|jar|states|help|completion)|^pgrep |MooringClient\.open"
ALONE: Final = r"^mooring |^java |^(from|import|class) "
"""What is for an application that has ended, for one that runs, and for none; the first that matches counts."""
ENDS_ALL: Final = r"^mooring (drain|stop) (?!.*(--query|--checkpoint))|client\.drain\("
WITH_COPIES: Final = r"control-standby|control_standby|--processor-id 4-0"
WITHOUT_COPIES: Final = r"--destination-host 10\.|place_container\("
WITH_PLACE: Final = r"/shared/_mooring"
WITHOUT_PLACE: Final = r"^mooring (status|doctor) --checkpoint"
WITH_DELTA: Final = r"--catalog|mooring export"


@dataclass(frozen=True)
class Outcome:
    """What became of a line of a page. `exit_code` is None for one that was skipped, or written into a file."""

    typed: Typed
    how: str
    exit_code: int | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        code = "-" if self.exit_code is None else str(self.exit_code)
        return f"{self.typed.page}:{self.typed.line}  exit {code}  {self.seconds:.1f} s  {self.how}"


class Run:
    """One run over pages."""

    def __init__(self, scene: Scene, with_builds: bool, outputs: Path | None) -> None:
        self.outcomes: list[Outcome] = []
        self._scene, self._with_builds, self._outputs = scene, with_builds, outputs
        self._submitted: tuple[Typed, str, Application] | None = None

    def run_page(self, page: Path) -> None:
        """Run what is on a page, from its top to its end."""
        here = typed_in(page)
        for typed in here:
            if typed.line == typed.block:
                self._scene.begin_block()
            if reason := why_skipped(typed, self._with_builds):
                self._add(Outcome(typed, f"skipped: {reason}: {first_line(typed.text)}"))
            elif not is_known(typed):
                self._add(Outcome(typed, f"not known to this script: {first_line(typed.text)}", 1))
            else:
                try:
                    self._run(typed, "\n".join(other.text for other in here if other.block == typed.block))
                except (MooringError, LookupError, subprocess.CalledProcessError) as error:
                    self._add(Outcome(typed, f"not run to its end, {error!r}: {first_line(typed.text)}", 1))
        self._end_submitted()

    def _run(self, typed: Typed, block: str) -> None:
        scene, text = self._scene, typed.text
        if typed.kind == "conf":
            (scene.application.directory / "client.conf").write_text(filled(scene, text)[0])
            self._add(Outcome(typed, "written to client.conf, for the command below it"))
            return
        if typed.kind == "command":
            text = re.sub(r"\s+# .*", "", text)
        if text.startswith("spark-submit "):
            self._end_submitted()
            name = "prices" if "zookeeper" in typed.page else "clicks"
            application = scene.start(text, {"spark.app.name": name})
            self._submitted = typed, filled(scene, text)[1], application
            return
        if re.search(ENDED, text):
            scene.have_ended(with_delta=bool(re.search(WITH_DELTA, block)))
        elif re.search(RUNNING, text):
            scene.have_running(
                copies=one_of(WITH_COPIES, WITHOUT_COPIES, block), place=one_of(WITH_PLACE, WITHOUT_PLACE, text)
            )
        self._call(typed, text)
        if re.search(ENDS_ALL, text):
            scene.application.process.wait(PATIENCE_SECONDS)

    def _call(self, typed: Typed, text: str) -> None:
        """Run a command or a snippet to its end."""
        scene = self._scene
        text, how = filled(scene, text)
        builds = any(re.search(pattern, text) for pattern in BUILDS)
        patience = BUILD_SECONDS if builds else PATIENCE_SECONDS
        env = environment({})
        if "pip install" in text:
            env["PATH"] = f"{scene.empty_environment / 'bin'}{os.pathsep}{env['PATH']}"
        began = time.monotonic()
        with tempfile.TemporaryFile("w+") as output:
            try:
                code = subprocess.run(
                    ["bash", "-c", text] if typed.kind == "command" else [sys.executable, "-c", text],
                    input=filled(scene, typed.given)[0],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    text=True,
                    cwd=ROOT if builds else scene.folder,
                    env=env,
                    timeout=patience,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                code, how = 124, f"not done within {patience:.0f} s, {how}"
            output.seek(0)
            printed = output.read()
        for uuid in re.findall(r"request (\w{8}-[\w-]{27})", printed):
            scene.request = uuid
        self._note(typed, text, printed)
        self._add(Outcome(typed, f"{how}: {first_line(text)}", code, time.monotonic() - began))

    def _end_submitted(self) -> None:
        """End the application that a line of this page has started, and report on that line."""
        if self._submitted:
            (typed, how, application), self._submitted = self._submitted, None
            code = application.end()
            self._note(typed, application.command, application.process.log_tail(5))
            seconds = time.monotonic() - application.began
            self._add(Outcome(typed, f"{how}: {first_line(application.command)}", code, seconds))
            self._scene.forget(application)

    def _note(self, typed: Typed, text: str, printed: str) -> None:
        if self._outputs:
            with self._outputs.open("a") as file:
                file.write(f"=== {typed.page}:{typed.line}\n$ {text}\n{printed}\n")

    def _add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        print(outcome, flush=True)


def filled(scene: Scene, text: str) -> tuple[str, str]:
    """The text with its place-holders filled in, and which they were."""
    put = []
    for word, value in PLACE_HOLDERS.items():
        if found := re.search(word, text):
            put.append(f"{found[0]} = {value(scene)}")
            text = re.sub(word, value(scene).replace("\\", r"\\"), text)
    return text, f"with {', '.join(put)}" if put else "as is"


def one_of(yes: str, no: str, text: str) -> bool | None:
    """True when the first pattern is in the text, False when the second one is, None when neither is."""
    return True if re.search(yes, text) else False if re.search(no, text) else None


def first_line(text: str) -> str:
    """The first line of a command, or of a snippet."""
    return text.splitlines()[0] + (" …" if "\n" in text else "")


def why_skipped(typed: Typed, with_builds: bool) -> str:
    """The reason why a line is not run; empty for one that is."""
    skipped = SKIPPED if with_builds else {**SKIPPED, **BUILDS}
    return next((reason for pattern, reason in skipped.items() if re.search(pattern, typed.text)), "")


def is_known(typed: Typed) -> bool:
    """Whether the script knows how to run a line, or why not to."""
    known = (ENDED, RUNNING, ALONE, *BUILDS, *SKIPPED, "^spark-submit ")
    return typed.kind == "conf" or any(re.search(pattern, typed.text) for pattern in known)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="run what the pages tell a reader to type")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, help="without it: all")
    parser.add_argument("--all", action="store_true", help="also what builds or installs: make, pip, the tests by name")
    parser.add_argument("--outputs", type=Path, metavar="FILE", help="a file for what is printed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mooring-pages-") as work, contextlib.ExitStack() as stack:
        scene = Scene(Path(work).resolve(), stack, lambda scene, text: filled(scene, text)[0])
        run = Run(scene, asked.all, asked.outputs)
        for page in asked.pages:
            run.run_page(page.resolve())
    failed = [outcome for outcome in run.outcomes if outcome.exit_code]
    skipped = [outcome for outcome in run.outcomes if outcome.how.startswith("skipped")]
    done = len(run.outcomes) - len(failed) - len(skipped)
    print(f"{len(run.outcomes)} lines: {done} done, {len(skipped)} skipped, {len(failed)} failed")
    for outcome in failed:
        print(outcome)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
