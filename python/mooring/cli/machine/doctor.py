"""`mooring doctor`: whether this machine has what Mooring needs, a line for each requirement."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from typing import Final

import mooring
from mooring.cli import options
from mooring.cli.checkpoint_place import local_path
from mooring.cli.exits import CommandFailed
from mooring.cli.machine.gc import default_directory
from mooring.cli.options import LOCAL_STORE_VARIABLE
from mooring.cli.output import print_json
from mooring.cli.records import METADATA_VARIABLE, CommandRecords
from mooring.client.liveness import liveness_of
from mooring.doctor import (
    Finding,
    Verdict,
    driver_python,
    lines_with_jars,
    look_at_jar,
    look_at_java,
    look_at_local_store,
    look_at_python,
    look_at_spark,
    spark_local_dirs,
)
from mooring.errors import MetadataStoreMissing, MooringError

NAME: Final = "doctor"
HELP: Final = "check that this machine has what Mooring needs, and say how to mend what is missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_metadata(parser)
    options.add_local_store(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Check everything, and print the findings. CommandFailed when one of them is wrong."""
    findings = [*of_this_machine(arguments.local_store), of_the_records(arguments)]
    wrong = [finding.subject for finding in findings if finding.verdict is Verdict.WRONG]
    if arguments.json:
        print_json({"ok": not wrong, "findings": [as_json(finding) for finding in findings]})
    else:
        print(as_text(findings))
    if wrong:
        raise CommandFailed(f"{', '.join(wrong)}: see above")


def of_this_machine(local_store: str | None) -> list[Finding]:
    """Check what does not depend on an application.

    `local_store` is the directory where executors of this host keep state; None is the default one.
    """
    named = local_store or os.environ.get(LOCAL_STORE_VARIABLE)
    root = local_path("--local-store", named, "expected a directory of this host") if named else default_directory()
    return [
        look_at_spark(os.environ, lines_with_jars()),
        look_at_java(os.environ),
        look_at_python(driver_python(os.environ)),
        look_at_jar(mooring.__version__),
        *look_at_local_store(root, spark_local_dirs(os.environ)),
    ]


def of_the_records(arguments: argparse.Namespace) -> Finding:
    """Check that the records can be reached that the options name, and whether their application runs."""
    named = arguments.metadata or arguments.of_checkpoint or arguments.metadata_conf
    if not named and not os.environ.get(METADATA_VARIABLE):
        return Finding("records", Verdict.WARNING, "not looked at", "name them with --metadata or --checkpoint")
    try:
        records = CommandRecords.named_by(arguments)
        status = records.status()
    except (CommandFailed, MetadataStoreMissing) as fault:
        return Finding("records", Verdict.WRONG, str(fault), "run a stateful query with Mooring, or name another place")
    except MooringError as fault:
        return Finding("records", Verdict.WRONG, str(fault), "name a place that can be reached from here")
    liveness = liveness_of(status, time.time_ns() // 1_000_000)
    return Finding("records", Verdict.OK, f"{records.place}: {status.get('application')}, {liveness.in_words}")


def as_json(finding: Finding) -> dict[str, str]:
    """A finding under names that other tools may rely on."""
    return {
        "subject": finding.subject,
        "verdict": finding.verdict.value,
        "message": finding.message,
        "advice": finding.advice,
    }


def as_text(findings: Sequence[Finding]) -> str:
    """A line for each."""
    width = max(len(finding.subject) for finding in findings)
    return "\n".join(
        f"{finding.verdict.value.ljust(7)}  {finding.subject.ljust(width)}  {finding.message}"
        f"{finding.advice and f'; {finding.advice}'}"
        for finding in findings
    )
