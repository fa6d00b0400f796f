"""Plan scripts and kubelet settings for new nodes from the field `bootstrap`.

Each cloud refuses scripts and settings that its nodes cannot use.
"""

from __future__ import annotations

from gpu_platform.base.quantity import counted
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes.section import KubeletLimits, NodeBootstrap, NodeScript
from gpu_platform.stack.pool import Pool


def plan_bootstrap(pool: Pool) -> Decided[NodeBootstrap | None]:
    """Return the scripts and settings that are added to the nodes of a pool, or None."""
    declared = pool.bootstrap
    if declared is None:
        return Decided(None)
    script = NodeScript(**declared.script.model_dump()) if declared.script is not None else None
    kubelet = KubeletLimits(**declared.kubelet.model_dump()) if declared.kubelet is not None else None
    planned = NodeBootstrap(commands=declared.commands, settings=declared.settings, script=script, kubelet=kubelet)
    chosen = [
        *([counted(len(planned.commands), "command")] if planned.commands else []),
        *([f"settings of {', '.join(planned.settings)}"] if planned.settings else []),
        *([f"script {script.gcs or script.secret}"] if script is not None else []),
        *([f"kubelet: {', '.join(declared.kubelet.model_dump(exclude_none=True))}"] if declared.kubelet else []),
    ]
    decision = Decision(
        subject=f"pool {pool.name}",
        what="additions to nodes",
        chosen="; ".join(chosen) or "none",
        why="declared in the stack file; nodes apply the additions as root before they join the cluster, "
        "and the program does not check the effect",
    )
    return Decided(planned, (decision,))
