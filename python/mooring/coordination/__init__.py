from mooring.coordination.barrier import Barriers, BarrierState, next_barrier_state
from mooring.coordination.job_models import KEPT_VERSIONS, JobModels
from mooring.coordination.leadership import LeaderListener, LeaderLock, Leadership
from mooring.coordination.processors import Processors

__all__ = [
    "KEPT_VERSIONS",
    "BarrierState",
    "Barriers",
    "JobModels",
    "LeaderListener",
    "LeaderLock",
    "Leadership",
    "Processors",
    "next_barrier_state",
]
