"""Choose the Pod Security labels for a team's namespace.

Source: Kubernetes docs, Pod Security Standards and Pod Security Admission (`enforce` checks only pods; `warn` and
`audit` also check the objects that create pods). Read 2026-11-23.
"""

from __future__ import annotations

from gpu_platform.base import names
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.nodes.section import Labels
from gpu_platform.stack.team import PodSecurity, Team

_PREFIX = "pod-security.kubernetes.io"
_STRICTEST: PodSecurity = "restricted"


def pod_security_labels(level: PodSecurity, *, by_policy: bool = False) -> Labels:
    """Return the labels of a namespace that enforces a level. At any level, violations of `restricted` cause
    warnings and audit entries.

    A warning tells members at once that their Deployment is admitted but its pods will not be. `by_policy`
    indicates whether a ValidatingAdmissionPolicy enforces the level, with exceptions.
    """
    enforced = {f"{_PREFIX}/enforce": level}
    if by_policy:
        enforced = {f"{_PREFIX}/enforce": "privileged", names.POD_SECURITY_LABEL: level}
    return {**enforced, f"{_PREFIX}/warn": _STRICTEST, f"{_PREFIX}/audit": _STRICTEST}


def pod_security_decisions(team: Team) -> tuple[Decision, ...]:
    """Return a decision if a team has a weaker level than the default. Otherwise the result is empty."""
    if team.pod_security == _STRICTEST:
        return ()
    return (
        Decision(
            subject=f"team {team.name}",
            what="Pod Security",
            chosen=team.pod_security,
            why="pod_security is set, so pods may run as root, without a seccomp profile and with the runtime's "
            "capabilities; the default is restricted",
        ),
    )
