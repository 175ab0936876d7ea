"""The kept results of test runs on each version of Spark, and the table of them."""

from scripts import tried

REPORT = """<testsuites><testsuite>
<testcase classname="tests.integration.test_jobs" name="a"/>
<testcase classname="tests.integration.test_jobs" name="b"><failure message="wrong"/></testcase>
<testcase classname="tests.integration.test_jobs" name="c"><skipped message="no Delta"/></testcase>
<testcase classname="tests.integration.test_drain" name="d"><error message="no cluster"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_counted_file_by_file(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert tried.results_in(report, "1a2b") == {
        "test_jobs": tried.Result("1a2b", passed=1, failed=1, skipped={"no Delta": 1}),
        "test_drain": tried.Result("1a2b", passed=0, failed=1, skipped={}),
    }


def test_a_later_run_of_a_file_replaces_its_result_and_no_other(tmp_path):
    old, new = tried.Result("1", 1, 1, {}), tried.Result("2", 2, 0, {})
    tried.keep("4.10.0", {"test_jobs": old, "test_drain": old}, tmp_path)
    tried.keep("4.10.0", {"test_jobs": new}, tmp_path)
    tried.keep("4.9.1", {"test_jobs": new}, tmp_path)
    assert tried.kept(tmp_path) == {"4.9.1": {"test_jobs": new}, "4.10.0": {"test_jobs": new, "test_drain": old}}
    assert list(tried.kept(tmp_path)) == ["4.9.1", "4.10.0"], "the older version comes first"


def test_the_table_adds_up_the_files_of_a_capability_and_names_what_was_not_run():
    results = {
        "4.0.5": {
            "test_drain": tried.Result("1", 3, 0, {"no Kafka": 2}),
            "test_drain_operators": tried.Result("1", 4, 1, {}),
        }
    }
    table = tried.table(results)
    assert "| drain and stop | 7 passed, 1 failed, 2 skipped |" in table
    assert "| container placement | not run |" in table
    assert "- 4.0.5: no Kafka" in table


def test_each_file_of_the_table_exists():
    folders = [tried.ROOT / "tests" / name for name in ("integration", "versions")]
    names = {path.stem for folder in folders for path in folder.glob("*.py")}
    assert {name for files in tried.CAPABILITIES.values() for name in files} <= names
