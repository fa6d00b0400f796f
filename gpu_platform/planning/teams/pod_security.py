"""Decide the Pod Security level of a team's namespace.

Source: Kubernetes docs, Pod Security Standards and Pod Security Admission (`enforce` judges pods alone; `warn` and
`audit` judge the objects that make pods, too). Read 2026-11-23.
"""

from __future__ import annotations

from gpu_platform.base import names
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.nodes.section import Labels
from gpu_platform.stack.team import PodSecurity, Team

_PREFIX = "pod-security.kubernetes.io"
_STRICTEST: PodSecurity = "restricted"


def pod_security_labels(level: PodSecurity, *, by_policy: bool = False) -> Labels:
    """Return the labels of a namespace that enforces a level; it warns of, and audits, `restricted` at any level.

    The warning is what a member sees at once whose Deployment is admitted, and whose pods are not.
    `by_policy`: a ValidatingAdmissionPolicy enforces the level, with exceptions.
    """
    enforced = {f"{_PREFIX}/enforce": level}
    if by_policy:
        enforced = {f"{_PREFIX}/enforce": "privileged", names.POD_SECURITY_LABEL: level}
    return {**enforced, f"{_PREFIX}/warn": _STRICTEST, f"{_PREFIX}/audit": _STRICTEST}


def pod_security_decisions(team: Team) -> tuple[Decision, ...]:
    """Return that a team chose less than the default; nothing for a team with the default."""
    if team.pod_security == _STRICTEST:
        return ()
    return (
        Decision(
            subject=f"team {team.name}",
            what="Pod Security",
            chosen=team.pod_security,
            why="pod_security: its pods may run as root, without a seccomp profile and with the runtime's "
            "capabilities; the default is restricted",
        ),
    )
