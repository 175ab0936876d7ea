"""A writer that is killed while it writes: nothing acknowledged is lost, nothing half-written is read."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mooring
from mooring.metadata import FileMetadataStore

WRITER = """
import sys
from mooring.metadata import FileMetadataStore

store = FileMetadataStore(sys.argv[1])
number = int(sys.argv[2])
while True:
    number += 1
    store.put("key", b"%d " % number * 20_000)
    store.flush()
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("lifetimes_ms", [(1, 7, 20, 33, 50)])
def test_a_killed_writer_leaves_whole_values_and_loses_nothing_acknowledged(tmp_path, lifetimes_ms):
    reports, last = [], 0
    environment = os.environ | {"PYTHONPATH": str(Path(mooring.__file__).parents[1])}
    with FileMetadataStore(str(tmp_path), report=reports.append) as reader:
        for lifetime in lifetimes_ms:
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path), str(last)],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            first = writer.stdout.readline()
            time.sleep(lifetime / 1000)
            writer.kill()
            acknowledged = int([first, *writer.stdout.read().splitlines()][-1])
            writer.wait()
            found = int(reader.get("key").split()[0])
            assert reader.get("key") == b"%d " % found * 20_000
            assert found in (acknowledged, acknowledged + 1)
            assert list(reader.all()) == ["key"]
            last = found
    assert reports == []
