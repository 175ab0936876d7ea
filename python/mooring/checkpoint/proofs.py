"""Checks the contents of a checkpoint's files with Spark's own libraries, in a JVM of its own.

One process, `io.mooring.Proofs` in the plugin's jar, answers any number of questions. Each question is a JSON object in
a line, and each answer too; docs/internals.md has the forms.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from mooring.errors import CheckpointError, CheckpointNotUnderstood
from mooring.installed_spark import spark_home
from mooring.jar import jar_path


class Proofs:
    """A context in which files can be checked. Its JVM starts with the first question and ends with the context."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Proofs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None and process.stdout is not None:
            process.stdin.close()  # the end of the questions
            process.stdout.close()
            process.wait()

    def fault_of(self, file: Path, codec: str) -> str | None:
        """What is wrong with an SST file, an archive, or a changelog of this compression; None for a good file.

        CheckpointNotUnderstood for a file that the Spark libraries on this machine can not judge.
        """
        answer = self._ask({"prove": str(file), "codec": codec})
        return str(answer["fault"]) if answer.get("fault") else None

    def lineage(self, changelog: Path, codec: str) -> Mapping[int, str]:
        """The versions, with their unique ids, on which a changelog builds. CheckpointError when it can not be read."""
        answer = self._ask({"lineage": str(changelog), "codec": codec})
        if answer.get("fault"):
            raise CheckpointError(f"{changelog} can not be read: {answer['fault']}")
        return {int(version): str(unique_id) for version, unique_id in answer["versions"].items()}

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process or self._begin()
        self._process = process
        assert process.stdin is not None and process.stdout is not None  # both are pipes
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            form: dict[str, Any] = json.loads(answer)
        except (OSError, ValueError) as fault:
            raise CheckpointError(f"the JVM that reads files of the checkpoint ended: {process.poll()}") from fault
        if form.get("unknown"):
            raise CheckpointNotUnderstood(str(form["unknown"]))
        return form

    def _begin(self) -> subprocess.Popen[str]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
        if java is None:
            raise CheckpointError("java is not on the PATH, and JAVA_HOME is not set: expected a JDK 17")
        home_of_spark = spark_home()
        if home_of_spark is None:
            raise CheckpointError("there is no Spark here: set SPARK_HOME, or pip install 'mooring[spark]'")
        jars = Path(home_of_spark) / "jars"
        command = [java, "-Xmx512m", "-cp", f"{jar_path()}:{jars}/*", "io.mooring.Proofs"]
        try:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        except OSError as fault:
            raise CheckpointError(f"{java} can not be started: {fault.strerror}") from fault
