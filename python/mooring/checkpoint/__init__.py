from mooring.checkpoint.branch import Branch, plan_branch
from mooring.checkpoint.lease import Lease, lease_on
from mooring.checkpoint.logs import query_id
from mooring.checkpoint.proofs import Proofs
from mooring.checkpoint.rollback import Rollback, plan_rollback, under_way
from mooring.checkpoint.survey import Survey, described
from mooring.checkpoint.verification import Verification

__all__ = [
    "Branch",
    "Lease",
    "Proofs",
    "Rollback",
    "Survey",
    "Verification",
    "described",
    "lease_on",
    "plan_branch",
    "plan_rollback",
    "query_id",
    "under_way",
]
