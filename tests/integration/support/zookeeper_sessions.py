"""Ends ZooKeeper sessions against the will of their owners."""

from __future__ import annotations

import uuid

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from mooring.testing.probes import wait_until


def expire(hosts: str, client_id: tuple[int, bytes]) -> None:
    """End a session as the servers do; its owner learns that at its next request.

    Another client joins the session and closes it. The owner may reconnect to it before that. So this is repeated until
    the session's nodes are gone.
    """
    witness = KazooClient(hosts)
    witness.start()
    try:
        wait_until(lambda: _is_closed(hosts, client_id, witness), "the session to be closed", timeout=20)
    finally:
        witness.stop()
        witness.close()


def _is_closed(hosts: str, client_id: tuple[int, bytes], witness: KazooClient) -> bool:
    mark = f"/mark-{uuid.uuid4().hex}"
    same = KazooClient(hosts, client_id=client_id)
    same.start()
    try:
        same.create(mark, ephemeral=True)
    except KazooException:  # the owner has it back already
        return False
    finally:
        same.stop()
        same.close()
    witness.sync("/")
    return witness.exists(mark) is None
