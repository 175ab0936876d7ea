"""The jar of the slow storage is made by the build of the plugin's jar. No compiler runs here."""

import pytest

from benchmarks.storage import kinds
from tests.unit.build.shim import build_jar

pytestmark = pytest.mark.needs_spark


def test_its_jar_is_compiled_by_the_compiler_of_this_spark(monkeypatch, tmp_path):
    calls = []

    def compile_none(sources, jars, classes, force):
        calls.append((list(sources), bool(list(jars.glob("scala-compiler-*.jar")))))
        folder = tmp_path / "classes"
        folder.mkdir()
        (folder / "A.class").write_bytes(b"class A")
        return folder

    monkeypatch.setattr(build_jar, "compiled", compile_none)
    assert kinds.build_jar(tmp_path / "slow.jar").is_file()
    assert calls == [(["SlowFileSystem.scala"], True)]
