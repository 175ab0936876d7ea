"""`python -m benchmarks`: which benchmarks there are, and what is printed and written."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks import move

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


def test_one_load_and_size_of_a_benchmark_can_run_alone(monkeypatch):
    asked = []
    monkeypatch.setattr(move, "measure", lambda plan: asked.append(plan) or RESULT)
    assert command.main(["move", "--load", "apart", "steady", "--gb", "0.5", "--gb", "2", "--rounds", "1"]) == 0
    assert [case.load for case in asked[0].cases] == [move.APART, move.STEADY]
    assert (asked[0].sizes_gb, asked[0].rounds) == ((0.5, 2.0), 1)


def test_nothing_is_left_out_of_a_benchmark_that_is_asked_for_as_a_whole(monkeypatch):
    asked = []
    monkeypatch.setattr(move, "measure", lambda plan: asked.append(plan) or RESULT)
    assert command.main(["move"]) == 0
    assert asked == [move.FULL]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["restrat"], "nearest: restart"),
        (["grouping", "--json", "/no/such/directory/x.json"], "/no/such/directory/x.json"),
        (["grouping", "--rounds", "1"], "grouping runs as a whole"),
        (["move", "--load", "aprat"], "no load 'aprat'; expected one of light, apart, steady, busy; nearest: apart"),
        (["move", "--quick", "--load", "busy"], "no load 'busy'; expected one of light"),
        (["move", "--gb", "0"], "'0': expected a number above zero"),
        (["scale", "--gb", "nan"], "'nan': expected a number above zero"),
        (["scale", "--rounds", "1.5"], "'1.5': expected a number above zero, such as 1"),
    ],
)
def test_bad_usage_is_refused_before_anything_runs(arguments, said, capsys):
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 2
    assert said in capsys.readouterr().err
