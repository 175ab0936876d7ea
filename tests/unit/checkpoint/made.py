"""A checkpoint as Spark would have left it, made by hand: one operator, changelogs, an archive now and then."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

from mooring.checkpoint import Survey

SST = "000008-aaaa.sst"
CODEC = "spark.sql.streaming.stateStore.compression.codec"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"


def begun_ms(batch: int) -> int:
    """When a batch was planned, by its entry."""
    return 1_795_000_000_000 + batch * 10_000


def no_lineage(changelog: Path, codec: str) -> dict[int, str]:
    raise AssertionError(f"{changelog} was not to be read")


@dataclass
class Made:
    """`archives` are the versions that have one; every version has a changelog. Version v is that after batch v - 1."""

    directory: Path
    batches: int = 6
    partitions: int = 2
    archives: tuple[int, ...] = (1, 4)
    with_ids: bool = True
    ids: str = "u"
    """What unique ids begin with."""
    provider: str = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    operator: str = "dedupe"
    """Spark's name for the operator's kind."""
    read: int = 0
    """How many files the source has given so far."""

    def __post_init__(self) -> None:
        for folder in ("offsets", "commits", "sources/0", "state/0/_metadata"):
            (self.directory / folder).mkdir(parents=True)
        self.write("metadata", json.dumps({"id": "query-1"}))
        stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": self.partitions}]
        operator = {"operatorInfo": {"operatorId": 0, "operatorName": self.operator}, "stateStoreInfo": stores}
        self.write("state/0/_metadata/metadata", f"v1\n{json.dumps(operator)}")
        for batch in range(self.batches):
            self.add(batch)

    def describe_key(self, *fields: str) -> None:
        """The schema of the state's key and value, as Spark 4 writes it beside the first partition."""

        def text(of: str) -> bytes:
            return len(of).to_bytes(2, "big") + of.encode()

        described = [{"name": one, "type": "long", "nullable": True, "metadata": {}} for one in fields]
        schemas = [json.dumps({"type": "struct", "fields": one}) for one in (described, [])]
        file = self.directory / "state/0/0/_metadata/schema"
        file.parent.mkdir(parents=True)
        file.write_bytes(text("v2") + b"".join(b"\0\0\0\1" + text(one) for one in schemas))

    def add(self, batch: int) -> None:
        self.begin(batch)
        self.commit(batch)
        version = batch + 1
        for partition in range(self.partitions):
            self.write(f"state/0/{partition}/{self.stem(version, partition)}.changelog", "changes")
            self.write(f"state/0/{partition}/{self.stem(version, partition)}.changelog.crc", "proof")
            if version in self.archives:
                self.archive(version, partition)

    def begin(self, batch: int) -> None:
        conf = {CODEC: "zstd", PROVIDER: self.provider, PARTITIONS: str(self.partitions)}
        begun = {"batchWatermarkMs": batch * 1000, "batchTimestampMs": begun_ms(batch), "conf": conf}
        self.write(f"offsets/{batch}", f'v1\n{json.dumps(begun)}\n{{"logOffset":{self.read}}}')
        read = self.input / f"{self.read}.json"
        read.parent.mkdir(exist_ok=True)
        read.write_text("rows")
        self.write(f"sources/0/{self.read}", f'v1\n{{"path":"file:{read}","timestamp":1,"batchId":{self.read}}}')
        self.read += 1

    def commit(self, batch: int, watermark_ms: int | None = None) -> None:
        version = batch + 1
        ids = [[self.id_of(version, partition)] for partition in range(self.partitions)]
        watermark = version * 1000 if watermark_ms is None else watermark_ms
        commit = {"nextBatchWatermarkMs": watermark, **({"stateUniqueIds": {"0": ids}} if self.with_ids else {})}
        self.write(f"commits/{batch}", f"{'v2' if self.with_ids else 'v1'}\n{json.dumps(commit)}")

    def repartition(self, batch: int, partitions: int, last_committed: int | None = None) -> None:
        """As Spark's offline repartition does it in this batch; those after `last_committed` are skipped."""
        last = batch - 1 if last_committed is None else last_committed
        for skipped in range(last + 1, batch):
            self.write(f"commits/{skipped}", 'v1\n{"nextBatchWatermarkMs":0}')
        text = (self.directory / f"offsets/{last}").read_text()
        self.write(
            f"offsets/{batch}",
            text.replace(f'"{PARTITIONS}": "{self.partitions}"', f'"{PARTITIONS}": "{partitions}"'),
        )
        self.partitions = partitions
        self.commit(batch, (last + 1) * 1000)
        for partition in range(partitions):
            self.archive(batch + 1, partition)

    @property
    def input(self) -> Path:
        return self.directory.with_name(f"{self.directory.name} input")

    def id_of(self, version: int, partition: int) -> str:
        return f"{self.ids}{version}p{partition}"

    def stem(self, version: int, partition: int) -> str:
        return f"{version}_{self.id_of(version, partition)}" if self.with_ids else str(version)

    def archive(self, version: int, partition: int, keys: int = 10) -> None:
        self.write(f"state/0/{partition}/SSTs/{SST}", "s" * 20)
        metadata = {
            "sstFiles": [{"localFileName": "000008.sst", "dfsSstFileName": SST, "sizeBytes": 20}],
            "numKeys": keys,
        }
        path = self.directory / f"state/0/{partition}/{self.stem(version, partition)}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(zipfile.ZipInfo("metadata"), f"v1\n{json.dumps(metadata)}")  # always of 1980

    def write(self, path: str, text: str) -> None:
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.with_name(f".{file.name}.crc").write_text("hadoop's")

    def file(self, partition: int, version: int, kind: str) -> Path:
        return self.directory / f"state/0/{partition}/{self.stem(version, partition)}.{kind}"

    def survey(self) -> Survey:
        return Survey(self.directory, no_lineage)

    def content(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.directory)): path.read_bytes()
            for path in sorted(self.directory.rglob("*"))
            if path.is_file()
        }
