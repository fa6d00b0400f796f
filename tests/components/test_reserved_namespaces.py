"""No team can use a namespace of the program or of a chart, even if the chart is not installed."""

from __future__ import annotations

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.teams.team_plans import is_reserved_namespace
from tests.planning.conftest import team
from tests.support.eks_stacks import plan_eks, record_eks

ADDONS = ("gateway", "jobset", "keda", "kuberay", "leaderworkerset", "prometheus", "trainer")
L4 = {"name": "l4", "machine_type": "g6.12xlarge", "workload": "inference"}


def test_namespaces_of_a_full_platform_are_reserved() -> None:
    program = record_eks(
        L4 | {"count": {"min": 0, "desired": 1, "max": 2}, "headroom": 1},
        addons=dict.fromkeys(ADDONS, "install"),
        queueing={},
        cleanup={},
        validation={"burn_in": {}},
        teams=[team()],
    )
    made = {record.inputs["metadata"]["name"] for record in program.of("Namespace")}
    assert {"keda", "monitoring", "kueue-system", "gpu-platform-headroom", "gpu-platform-burn-in"} < made
    assert [one for one in made if not is_reserved_namespace(one, load_catalog())] == ["vision"]


@pytest.mark.parametrize("name", ["monitoring", "keda", "kueue-system", "gpu-platform-headroom", "kube-flannel"])
def test_a_team_cannot_have_a_namespace_of_a_controller(name: str) -> None:
    with pytest.raises(BadInput, match=f"teams\\[0\\].name: found '{name}'.*team-{name}"):
        plan_eks(L4, teams=[team(name)])
