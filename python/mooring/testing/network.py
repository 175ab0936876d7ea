"""Simulated hosts whose link can be cut. Each has its own network namespace; a bridge joins them.

    with HostNetwork(hosts=3) as network, SparkCluster(network=network) as cluster:
        network.cut_link(network.hosts[0])      # no packet comes or goes, no connection is closed, all processes run on
        network.mend_link(network.hosts[0])

Needs Linux, root, and the command `ip`. All hosts share the machine's disk, so processes on a host that is cut off can
still write there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack, suppress

from mooring.errors import ClusterError
from mooring.testing.processes import is_alive
from mooring.testing.servers import StartedInWith

# Exit code 0 when the address answers; a refused connection is an answer too.
_IS_THERE = """
import socket, sys
try: socket.create_connection((sys.argv[1], 9), timeout=1).close()
except ConnectionRefusedError: pass
"""


class HostNetwork(StartedInWith):
    """A bridge with hosts on it; a context manager. A process can have one at a time.

    `gateway` is this machine's own address on the bridge. `ClusterError` when this machine can not make the network.
    """

    def __init__(self, hosts: int = 3) -> None:
        """The network is made with the with-block. At the end of the block no process may run on the hosts."""
        if not 1 <= hosts <= 250:
            raise ClusterError(f"hosts={hosts}: from 1 to 250")
        self._bridge = f"moor{os.getpid()}"  # names of links have 15 letters at most
        subnet = _free_subnet()
        self.gateway = f"{subnet}.1"
        self._names = {f"{subnet}.{number}": f"{self._bridge}h{number}" for number in range(2, 2 + hosts)}
        self.hosts = list(self._names)
        self._undo = ExitStack()

    def start(self) -> None:
        """Make the network, and remove networks that killed processes have left behind."""
        _remove_leftovers()
        self._make("link", "add", self._bridge, "type", "bridge", undo=("link", "del", self._bridge))
        _ip("addr", "add", f"{self.gateway}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for address, name in self._names.items():
            self._make("netns", "add", name, undo=("netns", "del", name))
            pair = ("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            self._make(*pair, undo=("link", "del", name))
            _ip("link", "set", name, "master", self._bridge, "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def stop(self) -> None:
        """Remove the network."""
        self._undo.close()

    def on(self, host: str) -> list[str]:
        """Words to put before a command, so that it runs on this host. The process becomes the command itself."""
        return ["ip", "netns", "exec", self._names[host]]

    def cut_link(self, host: str) -> None:
        """Stop all packets. No connection is closed: each side can notice this only by the other side's silence."""
        _ip("link", "set", self._names[host], "down")

    def mend_link(self, host: str) -> None:
        """Let packets pass again. After a while TCP repeats unanswered packets of old connections."""
        _ip("link", "set", self._names[host], "up")

    def reaches(self, host: str, address: str) -> bool:
        """Whether this host gets an answer from that address within a second."""
        command = [*self.on(host), sys.executable, "-I", "-S", "-c", _IS_THERE, address]
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def _make(self, *words: str, undo: tuple[str, ...]) -> None:
        _ip(*words)
        self._undo.callback(_ip, *undo)


def why_there_are_no_links() -> str:
    """Why this machine can not have a `HostNetwork`; empty when it can. The function makes one to find out."""
    try:
        with HostNetwork(hosts=2) as network:
            first, second = network.hosts
            out_of_reach = [address for address in (network.gateway, second) if not network.reaches(first, address)]
    except ClusterError as error:
        return str(error)
    return f"on a bridge {first} does not reach {', '.join(out_of_reach)}" if out_of_reach else ""


def _free_subnet() -> str:
    """The first three numbers of a subnet that is not in use, from the range for tests of networks (RFC 2544)."""
    taken = _ip("-o", "-4", "addr")
    for number in range(os.getpid(), os.getpid() + 512):
        subnet = f"198.{18 + number // 256 % 2}.{number % 256}"
        if f" {subnet}." not in taken:
            return subnet
    raise ClusterError("no free network in 198.18.0.0/15")


def _remove_leftovers() -> None:
    for kind, command in (("netns", ("netns", "list")), ("link", ("-o", "link", "show", "type", "bridge"))):
        for name, process in re.findall(r"\b(moor(\d+)(?:h\d+)?)\b", _ip(*command)):
            if not is_alive(int(process)):
                with suppress(ClusterError):  # another run may remove it first
                    _ip(kind, "del", name)  # the links of a namespace go with it


def _ip(*words: str) -> str:
    command = " ".join(["ip", *words])
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{command}: {error}") from error
    if done.returncode != 0:
        raise ClusterError(f"{command}: {done.stderr.strip()}")
    return done.stdout
