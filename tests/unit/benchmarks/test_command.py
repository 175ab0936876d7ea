"""`python -m benchmarks`: which benchmarks there are, and what is printed and written."""

import json

import pytest

from benchmarks import __main__ as command

RESULT = {
    "name": "grouping",
    "rows": [
        {
            "figure": "seconds",
            "unit": "s",
            "stock": {"median": 4.0, "min": 3.0, "max": 5.0, "n": 3},
            "mooring": {"median": 1.0, "min": 1.0, "max": 1.0, "n": 3},
            "ratio": 0.25,
        }
    ],
}


def test_a_benchmark_is_a_file_with_run():
    assert {"failover", "grouping", "move", "restart", "steady", "upload"} <= set(command.names())
    assert not {"report", "figures", "working", "__main__"} & set(command.names())


def test_the_medians_and_the_ratio_are_printed_and_the_result_is_written(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("benchmarks.grouping.run", lambda quick: asked.append(quick) or RESULT)
    assert command.main(["grouping", "--quick", "--json", str(tmp_path / "result.json")]) == 0
    assert asked == [True]
    assert json.loads((tmp_path / "result.json").read_text()) == RESULT
    shown = capsys.readouterr().out
    assert "4 s (3 s–5 s)" in shown and "0.25" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["restrat"], "nearest: restart"),
        (["grouping", "--json", "/no/such/directory/x.json"], "/no/such/directory/x.json"),
    ],
)
def test_bad_usage_is_refused_before_anything_runs(arguments, said, capsys):
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 2
    assert said in capsys.readouterr().err
