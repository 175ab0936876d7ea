"""The kept results of test runs on each version of Spark, and the table of them."""

import pytest

from scripts import tried

REPORT = """<testsuites><testsuite>
<properties><property name="spark" value="4.2.1"/></properties>
<testcase classname="tests.integration.test_jobs" name="a"/>
<testcase classname="tests.integration.test_jobs" name="b"><failure message="wrong"/></testcase>
<testcase classname="tests.integration.test_jobs" name="c"><skipped message="no Delta"/></testcase>
<testcase classname="tests.integration.test_drain" name="d[4.0-x]"><error message="no cluster"/></testcase>
<testcase classname="tests.versions.test_checkpoints" name="e[4.0-4.1-x]"/>
<testcase classname="tests.versions.test_smoke" name="f"/>
<testcase classname="tests.versions.test_smoke" name="g"><properties><property name="stock" value="AnError"/>
<property name="mooring" value="right"/></properties></testcase>
</testsuite></testsuites>"""


def test_a_report_is_read_test_by_test(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert tried.results_in(report) == {
        "4.2.1": {
            "integration.test_jobs": {"a": "passed", "b": "failed", "c": "skipped: no Delta"},
            "integration.test_drain": {"d[4.0-x]": "failed"},
            "versions.test_smoke": {"f": "passed", "g": "passed; stock: AnError; mooring: right"},
        },
        "4.0": {"versions.test_checkpoints": {"e[4.0-4.1-x]": "passed"}},
    }


def test_a_report_that_names_no_spark_is_refused(tmp_path, capsys):
    report = tmp_path / "report.xml"
    report.write_text("<testsuites/>")
    with pytest.raises(ValueError, match="expected one property spark"):
        tried.results_in(report)
    assert tried.main([str(report)]) == 1 and "report.xml" in capsys.readouterr().err


def test_a_later_result_of_a_test_replaces_the_earlier_one_and_no_other(tmp_path):
    tried.keep({"4.10.0": {"x.jobs": {"a": "failed", "b": "failed"}, "x.drain": {"c": "passed"}}}, tmp_path)
    tried.keep({"4.10": {"x.jobs": {"a": "passed"}}, "4.9.1": {"x.jobs": {"a": "passed"}}}, tmp_path)
    assert tried.kept(tmp_path) == {
        "4.9.1": {"x.jobs": {"a": "passed"}},
        "4.10.0": {"x.jobs": {"a": "passed", "b": "failed"}, "x.drain": {"c": "passed"}},
    }
    assert list(tried.kept(tmp_path)) == ["4.9.1", "4.10.0"], "the older version comes first"


def test_results_of_a_line_move_to_the_file_of_its_first_patch_release(tmp_path):
    tried.keep({"4.0": {"x.upgrade": {"a": "passed"}, "x.jobs": {"b": "failed"}}, "4.1.4": {}}, tmp_path)
    tried.keep({"4.0.5": {"x.jobs": {"b": "passed"}}}, tmp_path)
    assert tried.kept(tmp_path) == {"4.0.5": {"x.upgrade": {"a": "passed"}, "x.jobs": {"b": "passed"}}, "4.1.4": {}}


def test_the_table_adds_up_the_files_of_a_capability_and_names_what_was_not_run():
    results = {
        "4.0.5": {
            "integration.test_drain": {"a": "passed", "b": "skipped: no Kafka"},
            "integration.test_drain_operators": {"a": "passed", "b": "failed"},
            "integration.test_of_no_capability": {"a": "skipped: nobody asks"},
        }
    }
    table = tried.table(results)
    assert "| drain and stop | 2 passed, 1 failed, 1 skipped |" in table
    assert "| container placement | not run |" in table
    assert "- 4.0.5: no Kafka" in table and "nobody asks" not in table


def test_each_file_of_the_table_exists():
    files = {file for files in tried.CAPABILITIES.values() for file in files}
    assert {file for file in files if not (tried.ROOT / "tests" / f"{file.replace('.', '/')}.py").is_file()} == set()


def test_how_a_query_ends_on_stock_spark_and_with_mooring_is_shown_by_format_and_version():
    name = "test_a_checkpoint_of_one_format_where_the_conf_names_another_ends_no_worse_than_with_stock[{}]"
    results = {
        "4.0.5": {"versions.test_checkpoints": {name.format("4.0-1-2"): "passed; stock: AnError; mooring: right"}},
        "4.1.4": {
            "versions.test_checkpoints": {
                name.format("4.1-1-2"): "passed; stock: right; mooring: right",
                name.format("4.1-2-2"): "failed",
                "test_another[4.1-1-2]": "passed",
            }
        },
    }
    assert tried.formats_table(results).splitlines() == [
        "| checkpoint | settings | 4.0.5 | 4.1.4 |",
        "|---|---|---|---|",
        "| v1 | v2 | stock: AnError<br>mooring: right | stock: right<br>mooring: right |",
        "| v2 | v2 | not run | failed |",
    ]
    assert "| to the next line of Spark, and both formats | 1 passed | 2 passed, 1 failed |" in tried.table(results)
