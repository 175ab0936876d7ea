"""What this version can not judge is no damage: no command undoes it, leads to that, or passes it over in silence."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mooring.checkpoint import Proofs
from mooring.cli.machine import gc
from mooring.cli.main import main
from mooring.errors import CheckpointNotUnderstood
from tests.unit.checkpoint.made import SST, Made

pytestmark = pytest.mark.slow

Harm = Callable[[Made], None]


def changed(path: str, old: str, new: str) -> Harm:
    def change(made: Made) -> None:
        text = (made.directory / path).read_text()
        assert old in text
        made.write(path, text.replace(old, new, 1))

    return change


def with_newer_archives(made: Made) -> None:
    metadata = {"sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": SST, "sizeBytes": 20}], "numKeys": 1}
    with zipfile.ZipFile(made.file(1, 4, "zip"), "w") as archive:
        archive.writestr("metadata", f"v3\n{json.dumps(metadata)}")


def with_a_newer_kind_of_description(made: Made) -> None:
    made.write("state/0/_metadata/v3/0", "v3\n{}")


def without_a_description(made: Made) -> None:
    (made.directory / "state/0/_metadata/metadata").unlink()


def with_files_of_another_kind(made: Made) -> None:
    made.file(1, 6, "changelog").rename(made.directory / "state/0/1/6_u6p1.delta")


def with_gaps_in_both_logs(made: Made) -> None:
    shutil.rmtree(made.directory / "state")  # it keeps none
    for batch in range(6):
        made.write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
    for log in ("offsets", "commits"):
        for batch in (3, 4):
            (made.directory / log / str(batch)).unlink()


@dataclass(frozen=True)
class Case:
    """`since`: the batches from here on are not understood; those before it are whole."""

    harm: Harm
    says: str
    since: int = 5


IDS = '"stateUniqueIds": {"0": [["u6p0"], ["u6p1"]]}'
CASES = {
    "a newer offset log": Case(changed("offsets/5", "v1", "v3"), "offsets/5 is of version v3"),
    "a newer commit log": Case(changed("commits/5", "v2", "v4"), "commits/5 is of version v4"),
    "a control batch": Case(
        changed("offsets/5", "{", '{"controlBatchInfo": {"operationType": "x"}, '), "is of a control batch"
    ),
    "offsets of an old Spark": Case(
        lambda made: made.write("offsets/5", 'v1\n\n{"logOffset":5}'), "offsets/5 has no settings"
    ),
    "a newer description": Case(changed("state/0/_metadata/metadata", "v1", "v3"), "is of version v3", since=0),
    "a newer kind of description": Case(with_a_newer_kind_of_description, "known is v2", since=0),
    "no description": Case(without_a_description, "metadata is not there", since=0),
    "a newer archive": Case(with_newer_archives, "4_u4p1.zip is of version v3", since=3),
    "a commit without ids": Case(changed("commits/5", f", {IDS}", ""), "does not say which versions its state has"),
    "a commit of format 1": Case(
        lambda made: made.write("commits/5", 'v1\n{"nextBatchWatermarkMs":6000}'), "does not say which versions"
    ),
    "a partition more": Case(changed("commits/5", '["u6p1"]', '["u6p1"], ["u6p2"]'), "operator 0, partition 2"),
    "a store more": Case(changed("commits/5", '["u6p1"]', '["u6p1", "x"]'), "has 2 stores of operator 0, partition 1"),
    "an operator more": Case(changed("commits/5", '{"0": ', '{"1": [["x"]], "0": '), "operator 1, partition 0"),
    "another provider": Case(
        changed("offsets/5", "state.RocksDBStateStoreProvider", "state.MyProvider"),
        "state.MyProvider, which is not known",
    ),
    "files of another kind": Case(with_files_of_another_kind, "6_u6p1.delta, of a kind that is not known"),
    "gaps in both logs": Case(with_gaps_in_both_logs, "in neither log"),
}


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def made(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """For all tests of a case, as none changes it."""
    it = Made(tmp_path_factory.mktemp("case") / "it")
    assert it.survey().whole_batches() == tuple(range(6))
    case.harm(it)
    return it


@pytest.fixture(autouse=True)
def content_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Proofs, "fault_of", lambda self, file, codec: None)


def ended(made: Made, capsys: pytest.CaptureFixture[str], command: str, *more: str) -> tuple[int, str]:
    code = main([command, str(made.directory), *more])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_history_shows_it_as_a_third_value(case: Case, made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = ended(made, capsys, "history", "--json")
    batches = {one["batch"]: one for one in json.loads(said)["batches"]}
    assert code == 0 and batches[5]["whole"] == "not understood"
    assert batches[5]["obstacles"][0].startswith("not understood: ") and case.says in batches[5]["obstacles"][0]
    assert {batch for batch, one in batches.items() if one["whole"] != "not understood"} == {*range(case.since)} & {
        *batches
    }
    code, said = ended(made, capsys, "history")
    assert code == 0 and case.says in said and "it may be good" in said
    assert any(line.startswith("5 ") and "not understood" in line for line in said.splitlines())


def test_verify_ends_with_a_code_of_its_own_and_leads_nowhere(
    case: Case, made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ((), ("--all",)):
        code, said = ended(made, capsys, "verify", *options)
        assert code == 5 and "not understood: " in said and case.says in said
        assert "restore" not in said and "damaged" not in said and "is lost" not in said
    code, said = ended(made, capsys, "verify", "--json")
    form, _ = json.JSONDecoder().raw_decode(said)
    assert code == 5 and form["faults"] == {} and form["newest-whole-batch"] is None and form["not-understood"]["5"]


@pytest.mark.parametrize(
    "options",
    [("--to-newest-whole",), ("--to-batch", "5"), ("--to-batch", "2"), ("--to-newest-whole", "--dry-run")],
    ids=" ".join,
)
def test_restore_undoes_nothing(options: tuple[str, ...], made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    before = made.content()
    code, said = ended(made, capsys, "restore", *options)
    assert code == 5 and "not understood: " in said and made.content() == before


def test_restore_makes_a_checkpoint_beside_it_as_of_a_batch_that_is_understood(
    case: Case, made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, into = made.content(), tmp_path / "beside"
    code, said = ended(made, capsys, "restore", "--to-batch", "2", "--into", str(into))
    assert code == (0 if case.since > 2 else 5), said
    assert into.exists() == (code == 0) and made.content() == before


@pytest.mark.parametrize(
    "command", [("pin", "--batch", "5"), ("export", "--to", "/nowhere/table"), ("export", "--batch", "5", "--to", "/n")]
)
def test_nothing_is_made_of_it(
    command: tuple[str, ...], case: Case, made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    before = made.content()
    code, said = ended(made, capsys, *command)
    assert code == 5 and "not understood: " in said and case.says in said and made.content() == before


def test_the_local_store_keeps_its_files(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "store" / gc.key_of(str(made.directory))
    folder.mkdir(parents=True)
    (folder / gc.OWNER).write_text(str(made.directory))
    assert main(["gc", "--local-store", str(tmp_path / "store")]) == 0
    assert folder.exists() and f"kept: {folder.name}" in capsys.readouterr().out


def test_content_that_can_not_be_judged_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path / "it")
    before = made.content()

    def fault_of(self: Proofs, file: Path, codec: str) -> str | None:
        if file.name == "6_u6p0.changelog":
            raise CheckpointNotUnderstood("its version is v7")
        return None

    monkeypatch.setattr(Proofs, "fault_of", fault_of)
    code, said = ended(made, capsys, "verify")
    assert code == 5 and "operator 0, partition 0: 6_u6p0.changelog: its version is v7" in said
    assert ended(made, capsys, "restore", "--to-newest-whole")[0] == 5 and made.content() == before


def test_damage_beside_it_is_told_and_leads_nowhere_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(tmp_path / "it")
    CASES["a newer commit log"].harm(made)
    made.file(0, 3, "changelog").unlink()
    code, said = ended(made, capsys, "verify", "--all")
    assert code == 1 and "batch 2: operator 0, partition 0: neither 3_u3p0.zip" in said
    assert "can not be told: not understood: " in said and "--to-newest-whole" not in said


def test_a_description_that_is_damaged_is_told_as_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(tmp_path / "it")
    made.write("state/0/_metadata/metadata", "v1\n{")
    code, said = ended(made, capsys, "verify")
    assert code == 1 and "batch 5: " in said and "does not describe the operator 0" in said
    assert "--to-newest-whole" not in said
