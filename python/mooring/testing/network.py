"""Hosts whose link can be cut: each in a network namespace of its own, joined by a bridge. Linux, root, and `ip`.

    with HostNetwork(hosts=3) as network, SparkCluster(network=network) as cluster:
        network.cut_link(network.hosts[0])      # no packet comes or goes, no connection is closed, all processes run on
        network.mend_link(network.hosts[0])

The disk stays shared, so what runs on a host that is cut off can still write there.
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

# Exit code 0 when somebody answers at (address, port), if only to say that nobody listens.
_IS_THERE = """
import socket, sys
try: socket.create_connection((sys.argv[1], 9), timeout=1).close()
except ConnectionRefusedError: pass
"""


class HostNetwork(StartedInWith):
    """A bridge and so many hosts on it; a context manager. One at a time in each process.

    `gateway` is this machine's own address on it. `ClusterError` when the machine does not let us make it.
    """

    def __init__(self, hosts: int = 3) -> None:
        """Nothing is made before the with-block. At the end of it no process may be left on the hosts."""
        if not 1 <= hosts <= 250:
            raise ClusterError(f"hosts={hosts}: from 1 to 250")
        self._bridge = f"moor{os.getpid()}"  # names of links have 15 letters at most
        subnet = _free_subnet()
        self.gateway = f"{subnet}.1"
        self._names = {f"{subnet}.{number}": f"{self._bridge}h{number}" for number in range(2, 2 + hosts)}
        self.hosts = list(self._names)
        self._undo = ExitStack()

    def start(self) -> None:
        """Make it, and remove what killed processes have left of theirs."""
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
        """Remove all of it."""
        self._undo.close()

    def on(self, host: str) -> list[str]:
        """The words before a command that is to run on this host. The process is the command's own."""
        return ["ip", "netns", "exec", self._names[host]]

    def cut_link(self, host: str) -> None:
        """No packet comes or goes any more. No connection is closed: either side has to find out by its silence."""
        _ip("link", "set", self._names[host], "down")

    def mend_link(self, host: str) -> None:
        """Packets come and go again. What TCP has kept of old connections is sent once more, in a while."""
        _ip("link", "set", self._names[host], "up")

    def reaches(self, host: str, address: str) -> bool:
        """Whether this host gets an answer from that address within a second."""
        command = [*self.on(host), sys.executable, "-I", "-S", "-c", _IS_THERE, address]
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def _make(self, *words: str, undo: tuple[str, ...]) -> None:
        _ip(*words)
        self._undo.callback(_ip, *undo)


def why_there_are_no_links() -> str:
    """Empty where a `HostNetwork` can be had: one was made, and its hosts were heard. Else what is in the way."""
    try:
        with HostNetwork(hosts=2) as network:
            first, second = network.hosts
            unheard = [address for address in (network.gateway, second) if not network.reaches(first, address)]
    except ClusterError as error:
        return str(error)
    return f"on a bridge {first} does not reach {', '.join(unheard)}" if unheard else ""


def _free_subnet() -> str:
    """Its first three numbers; of the range that is set aside for tests of networks (RFC 2544)."""
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
                with suppress(ClusterError):  # another run is quicker
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
