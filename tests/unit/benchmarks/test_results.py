"""Results in their one form, and as tables."""

import pytest

from benchmarks.figures import percentile, row, spread
from benchmarks.report import filled, table


def open_seconds(storage, stock, mooring):
    return row("open-seconds", "s", {"stock": stock, "mooring": mooring}, storage=storage, state_gb=1.0)


def test_a_spread_is_median_least_greatest_and_number():
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0, "n": 3}


def test_a_figure_without_values_is_refused():
    with pytest.raises(ValueError, match="without a single value"):
        spread([])


def test_the_ratio_is_ours_over_stock():
    made = open_seconds("slow", [10.0, 12.0, 11.0], [1.1])
    assert made["ratio"] == 0.1
    assert (made["storage"], made["state-gb"]) == ("slow", 1.0)


def test_a_ratio_over_nothing_is_left_out():
    assert "ratio" not in open_seconds("slow", [0.0], [1.0])


def test_further_variants_have_ratios_of_their_own():
    made = row("kill-to-commit-seconds", "s", {"stock": [4.0], "mooring": [2.0], "mooring-standby": [1.0]})
    assert (made["ratio"], made["ratio-mooring-standby"]) == (0.5, 0.25)


@pytest.mark.parametrize(("percent", "expected"), [(50, 2), (95, 4), (100, 4), (1, 1)])
def test_a_percentile_is_one_of_the_values(percent, expected):
    assert percentile([4, 3, 2, 1], percent) == expected


def test_a_table_has_a_line_for_each_row():
    result = {"name": "restart", "rows": [open_seconds("raw", [2.0], [1.0]), open_seconds("slow", [30, 31, 29], [3.0])]}
    assert table(result).splitlines() == [
        "| figure | storage | stock | mooring | ratio |",
        "| --- | --- | ---: | ---: | ---: |",
        "| open-seconds | raw | 2 s | 1 s | 0.5 |",
        "| open-seconds | slow | 30 s (29 s–31 s) | 3 s | 0.1 |",
    ]


def test_a_table_shows_bytes_as_megabytes_and_switches_as_on_and_off():
    rows = [row("remote-bytes", "bytes", {"stock": [1e9], "mooring": [0]}, changelog=on) for on in (True, False)]
    assert table({"name": "restart", "rows": rows}).splitlines()[2:] == [
        "| remote-bytes | on | 1,000.0 MB | 0 | 0 |",
        "| remote-bytes | off | 1,000.0 MB | 0 | 0 |",
    ]


def test_a_table_shows_how_many_times_as_much_with_what_comes_after_the_point():
    rows = [row("worst-over-median", "x", {"stock": [4.125, 4.0, 9.5], "mooring": [1.25]})]
    assert table({"name": "move", "rows": rows}).splitlines()[2:] == [
        "| worst-over-median | 4.12 (4–9.5) | 1.25 | 0.303 |",
    ]


def test_a_table_can_be_kept_to_some_figures():
    rows = [row(name, "s", {"stock": [1.0], "mooring": [1.0]}) for name in ("a", "b", "c")]
    lines = table({"name": "x", "rows": rows}, ["c", "a"]).splitlines()[2:]
    assert [line.split()[1] for line in lines] == ["c", "a"]


def test_a_page_gets_its_tables_and_keeps_its_words():
    other = "More.\n<!-- table: other -->\nx\n<!-- end -->\n"
    page = f"Words.\n<!-- table: restart open-seconds -->\nold\n<!-- end -->\n{other}"
    result = {"name": "restart", "rows": [open_seconds("raw", [2.0], [1.0])]}
    made = filled(page, {"restart": result})
    assert made.startswith("Words.\n<!-- table: restart open-seconds -->\n\n| figure |")
    assert "old" not in made
    assert made.endswith(other)
    assert filled(made, {"restart": result}) == made


def test_a_page_says_what_the_figures_are():
    made = filled("before\n<!-- figures: restart -->\nof last year\n<!-- end -->\nafter\n", {})
    assert "    open-seconds " in made and "of last year" not in made
    assert made.startswith("before\n<!-- figures: restart -->\n") and made.endswith("<!-- end -->\nafter\n")
    assert filled(made, {}) == made


def test_what_stock_spark_has_nothing_to_compare_with_has_no_column_for_it():
    measured = {"median": 0.5, "min": 0.4, "max": 0.6, "n": 3}
    row = {
        "figure": "seconds",
        "unit": "s",
        "storage": None,
        "tasks": 10,
        "stock": None,
        "mooring": measured,
        "ratio": None,
    }
    made = table({"rows": [row, {**row, "tasks": 20}]})
    assert made.splitlines()[0] == "| figure | tasks | mooring |"
    assert "| seconds | 10 | 0.5 s (0.4 s–0.6 s) |" in made


def test_a_table_can_have_some_figures_and_some_rows_only():
    rows = [open_seconds("raw", [2.0], [1.0]), open_seconds("slow", [30.0], [3.0]), row("calls", "1", {"stock": [4.0]})]
    shown = table({"name": "restart", "rows": rows}, ["open-seconds", "storage=slow"])
    assert shown.splitlines()[2:] == ["| open-seconds | 30 s | 3 s | 0.1 |"]
