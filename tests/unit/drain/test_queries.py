"""What sources and sinks say of themselves, as places."""

import pytest

from mooring.drain import places


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("FileStreamSource[file:/data/in]", {"/data/in"}),
        ("FileSink[/data/in/]", {"/data/in"}),
        ("DeltaSource[s3a://bucket/table]", {"s3a://bucket/table"}),
        ("DeltaSink[s3a://bucket/table]", {"s3a://bucket/table"}),
        ("KafkaV2[Subscribe[bids, auctions]]", {"topic bids", "topic auctions"}),
        ("KafkaV2[Assign[bids-0, bids-1]]", {"topic bids-0", "topic bids-1"}),
        ("RateStreamV2[rowsPerSecond=1, rampUpTimeSeconds=0]", set()),
        ("ForeachBatchSink", set()),
        ("org.apache.spark.sql.execution.datasources.noop.NoopTable$@1b2c3d", set()),
        ("", set()),
    ],
)
def test_the_places_in_a_description(description: str, expected: set[str]) -> None:
    assert places([description]) == expected
