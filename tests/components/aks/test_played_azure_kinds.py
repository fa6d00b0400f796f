"""The simulated Azure subscription supports every resource kind that the program creates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.components.aks.aks_recorded import ACCOUNT, CREATED, EXISTING, FORMS, PRIVATE, TEAM, of_azure, recorded
from tests.support.played_cloud.kinds import kinds

BUCKET = {"name": "datasets", "storage_account": ACCOUNT}


@pytest.mark.parametrize("cluster", [CREATED, EXISTING, PRIVATE])
def test_every_kind_that_the_program_registers_on_azure_is_known(cluster: dict[str, Any]) -> None:
    pools = ({**FORMS[form], "name": form} for form in ("t4", "spot", "close"))
    recording = recorded(*pools, cluster=cluster, teams=[{**TEAM, "identity": {"buckets": [BUCKET]}}])
    registered = {record.type for record in of_azure(recording)}
    assert "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool" in registered
    assert registered <= kinds().keys()
