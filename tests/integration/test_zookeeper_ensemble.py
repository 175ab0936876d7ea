"""The testing kit's ZooKeeper: nodes that are killed, paused and brought back."""

import pytest

from mooring.errors import ClusterError
from mooring.testing.probes import wait_until
from mooring.testing.zookeeper import ZooKeeperEnsemble


def test_one_node_serves_is_killed_and_comes_back(tmp_path):
    with ZooKeeperEnsemble(work_dir=tmp_path) as ensemble:
        (node,) = ensemble.nodes
        assert ensemble.leader() is node
        assert node.mode() == "standalone"
        node.kill()
        with pytest.raises(OSError):
            node.serves()
        node.revive()
        assert node.serves()


def test_a_paused_node_is_silent_until_it_is_resumed(tmp_path):
    with ZooKeeperEnsemble(work_dir=tmp_path) as ensemble:
        (node,) = ensemble.nodes
        node.pause()
        with pytest.raises(OSError):
            node.serves()
        node.resume()
        wait_until(node.serves, "the node to answer again", timeout=20)


def test_two_of_three_serve_and_one_does_not(tmp_path):
    with ZooKeeperEnsemble(nodes=3, work_dir=tmp_path) as ensemble:
        assert sorted(node.mode() for node in ensemble.nodes) == ["follower", "follower", "leader"]
        leader = ensemble.leader()
        leader.kill()
        second = ensemble.leader()
        second.kill()
        (last,) = (node for node in ensemble.nodes if node.process.is_running)
        wait_until(lambda: not last.serves(), "the last node to notice", timeout=30)
        with pytest.raises(ClusterError, match="a ZooKeeper node to lead"):
            ensemble.leader(timeout=0.5)
        leader.revive()
        assert last.serves()


def test_no_nodes_are_no_ensemble():
    with pytest.raises(ClusterError, match="nodes=0"):
        ZooKeeperEnsemble(nodes=0)
