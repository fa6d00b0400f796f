"""Checks that all nodes of a pool are in one NVLink domain, using a label that feature discovery sets.

Nodes with the same value of nvidia.com/gpu.clique (`<cluster UUID>.<clique id>` of the fabric) reach each other
over NVLink. Source: EKS user guide, P6e-GB200 UltraServers; kubernetes-sigs/dra-driver-nvidia-gpu,
docs/install.md; read 2026-11-23.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.planning.expectations.section import NodeExpectation
from validators.agent.outcome import FAIL, PASS, UNKNOWN
from validators.result import CheckResult, Verdict

_DISCOVERY: Final = "kubectl get pods -n gpu-operator -o wide -l app=gpu-feature-discovery"
_FABRIC: Final = (
    "see nvidia-smi -q (Fabric) on a node without the label: the fabric manager must have registered its GPUs"
)


def check_domain(expectation: NodeExpectation, nodes: Sequence[Mapping[str, Any]]) -> CheckResult | None:
    """Check the nodes of a pool that must form one NVLink domain.

    Return None for other pools, and for pools without nodes.
    """
    if not expectation.one_clique or not nodes:
        return None
    labels = [_clique(node) for node in nodes]
    cliques = Counter(label for label in labels if label)
    without = len(nodes) - cliques.total()
    verdict: Verdict = PASS
    remedy = ""
    if not cliques:
        verdict, remedy = (
            UNKNOWN,
            f"feature discovery sets the label if the fabric is up: {_DISCOVERY}; {_FABRIC}",
        )
    elif without:
        verdict, remedy = FAIL, _FABRIC
    elif len(cliques) > 1:
        verdict = FAIL
        remedy = (
            "the nodes are in several racks: compare the reservation and, on GKE, the workload policy of the pool"
        )
    observed = [f"{count} in {clique}" for clique, count in sorted(cliques.items())]
    return CheckResult(
        id="nvlink-domain",
        verdict=verdict,
        expected="one NVLink domain",
        observed=", ".join([*observed, *([f"{without} without the label"] if without else [])]),
        source=expectation.sources.get(names.GPU_CLIQUE_LABEL, f"pool {expectation.pool}"),
        remediation=remedy,
    )


def _clique(node: Mapping[str, Any]) -> str:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels.get(names.GPU_CLIQUE_LABEL, "")
