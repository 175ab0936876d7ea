"""How `run_pages` takes the lines of a page; the cluster that it runs them on is not started."""

from pathlib import Path

import pytest

from scripts.pages import Typed
from scripts.run_pages import filled, is_known, why_skipped


class NoScene:
    """Values without a cluster."""

    processor, request, hosts = "1", "00000000-1111-2222-3333-444444444444", ["a", "b", "c"]
    folder = Path("/work")


def command(text: str) -> Typed:
    return Typed("page.md", 1, 1, "command", text)


@pytest.mark.parametrize("text", ["frobnicate", "curl http://host", "mooringx status", "import-it"])
def test_a_line_that_no_rule_is_for_is_not_known(text: str) -> None:
    assert not is_known(command(text))


def test_what_builds_is_skipped_unless_it_is_asked_for() -> None:
    assert why_skipped(command("make unit"), with_builds=False)
    assert not why_skipped(command("make unit"), with_builds=True)
    assert why_skipped(command("make test"), with_builds=True), "a run of its own in any case"
    assert not why_skipped(command("mooring status"), with_builds=False)


@pytest.mark.parametrize(
    "text", ["yarn logs -applicationId a", "kubectl logs driver", "aws s3 cp a b", "spark-submit --master yarn job.py"]
)
def test_what_needs_a_cluster_of_another_kind_is_skipped(text: str) -> None:
    assert why_skipped(command(text), with_builds=True)
    assert not why_skipped(command("spark-submit job.py"), with_builds=True)


def test_place_holders_are_filled_in_and_named() -> None:
    text, how = filled(
        NoScene(),  # type: ignore[arg-type]
        "mooring place-container --metadata /shared/_mooring --processor-id 4 --destination-host 10.0.0.7",
    )
    assert text == "mooring place-container --metadata /work/_mooring --processor-id 1 --destination-host c"
    assert how == "with /shared = /work, 4 = 1, 10.0.0.7 = c"
    assert filled(NoScene(), "mooring jar") == ("mooring jar", "as is")  # type: ignore[arg-type]


def test_the_request_of_a_page_is_the_last_one() -> None:
    uuid = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
    assert filled(NoScene(), f"--uuid {uuid}")[0] == f"--uuid {NoScene.request}"  # type: ignore[arg-type]
