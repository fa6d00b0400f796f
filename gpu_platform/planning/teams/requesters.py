"""Who sends a request to the API server, as CEL of its policies: a controller, an administrator, or a member.

Controllers are system users: parts of Kubernetes, nodes, and service accounts. Service accounts of the team's own
namespace, and those that the stack file names as members, are members.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.teams.cel import texts
from gpu_platform.stack.team import Team

_USER: Final = "request.userInfo.username"
BY_AN_ADMINISTRATOR: Final = (
    "authorizer.group('').resource('resourcequotas').namespace(request.namespace).check('update').allowed()"
)
"""That the requester may change the quotas of the namespace: no role of a team may."""


def accounts_of(team: Team) -> tuple[str, ...]:
    """Return the user names of service accounts of other namespaces that are members of a team."""
    named = (one.partition(":") for one in team.everybody)
    return tuple(
        f"system:serviceaccount:{name.replace('/', ':')}" for kind, _, name in named if kind == "serviceaccount"
    )


def by_a_controller(accounts: tuple[str, ...]) -> str:
    """Return that a controller sends the request. `accounts`: those of members in other namespaces."""
    members = f" && !({_USER} in {texts(accounts)})" if accounts else ""
    return (
        f"({_USER}.startsWith('system:') && "
        f"!{_USER}.startsWith('system:serviceaccount:' + request.namespace + ':'){members})"
    )
