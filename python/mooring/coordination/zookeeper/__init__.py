from mooring.coordination.zookeeper.barrier import ZkBarriers
from mooring.coordination.zookeeper.job_models import ZkJobModels
from mooring.coordination.zookeeper.leader import ZkLeaderLock
from mooring.coordination.zookeeper.processors import ZkProcessors

__all__ = ["ZkBarriers", "ZkJobModels", "ZkLeaderLock", "ZkProcessors"]
