"""The command against a store in Kafka."""

import uuid

from mooring.cli.exits import Exit
from mooring.cli.main import main
from mooring.metadata import open_metadata_store
from mooring.records.records import STATUS


def test_status_reads_what_the_agent_wrote(kafka_broker, monkeypatch, capsys):
    address = f"kafka://{kafka_broker.servers}/command-{uuid.uuid4().hex}"
    monkeypatch.setenv("MOORING_METADATA", address)
    for command in ("apps", "status"):
        assert main([command, "--json"]) == Exit.FAILED
        assert f"there is no topic {address.rpartition('/')[2]} in Kafka" in capsys.readouterr().err
    with open_metadata_store(address) as empty:
        empty.flush()
    assert main(["status", "--json"]) == Exit.FAILED
    assert f"there is no status in {address}: has an application" in capsys.readouterr().err
    with open_metadata_store(address, **{"exclusive.writer": "agent"}) as agent:
        agent.put(STATUS, b'{"application": "app-1"}')
    assert main(["status", "--json"]) == Exit.DONE
    assert '"application": "app-1"' in capsys.readouterr().out
    assert main(["apps"]) == Exit.DONE
    assert capsys.readouterr().out.splitlines()[1].endswith(address)
