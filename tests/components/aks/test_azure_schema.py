"""Every Azure resource that the program registers has the arguments and values of the provider's schema."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.components.aks.aks_recorded import (
    CREATE,
    DISK_KEYS,
    EXISTING,
    FORMS,
    PRIVATE,
    SECRETS_KEY,
    SUBNET,
    TEAM,
    agent_pool,
    of_azure,
    recorded,
)
from tests.components.aks.azure_schema import unknown_inputs
from tests.support.recorded import Recorded, record_shipped

_CLUSTERS: dict[str, dict[str, Any]] = {
    "existing": EXISTING,
    "created": {**EXISTING, "create": CREATE, "tags": {"cost-center": "ml"}},
    "existing-network": {
        **EXISTING,
        "create": {
            **CREATE,
            "resource_group": "existing",
            "network": {"subnet": SUBNET, "outbound": "nat-gateway"},
        },
    },
    "private": PRIVATE,
    "keys": {**EXISTING, "create": {**CREATE, "disk_encryption_set": DISK_KEYS, "kms_key": SECRETS_KEY}},
    "growing": {**EXISTING, "create": {**CREATE, "system": {"min": 2, "max": 5, "zones": []}}},
    "development": {**EXISTING, "create": CREATE, "production": False},
}


def wrong(recording: Recorded) -> list[str]:
    records = of_azure(recording)
    assert records
    return [problem for record in records if "Provider" not in record.type for problem in unknown_inputs(record)]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_agent_pool_has_the_arguments_of_the_provider(form: str) -> None:
    assert wrong(recorded({"name": form, **FORMS[form]})) == []


@pytest.mark.parametrize("cluster", _CLUSTERS)
def test_each_form_of_cluster_has_the_arguments_of_the_provider(cluster: str) -> None:
    assert wrong(recorded(cluster=_CLUSTERS[cluster], teams=[TEAM])) == []


def test_the_example_stack_has_the_arguments_of_the_provider() -> None:
    assert wrong(Recorded(record_shipped("aks-training"))) == []


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"vmSizes": "x"}, "vmSizes: the provider has no such argument"),
        ({"vmSize": 4}, "4 is not of type str"),
        ({"nodeCount": True}, "True is not of type int"),
        ({"zones": "1"}, "is not a list"),
        ({"gpuDriver": "Off"}, r"'Off' is not one of \['Install', 'None'\]"),
        ({"kubeletConfig": {"podMaxPids": 4}}, "kubeletConfig.podMaxPids: the provider has no such argument"),
        ({"nodeLabels": {"a": 1}}, "nodeLabels.a: 1 is not a string"),
    ],
)
def test_what_the_provider_does_not_have_is_found(inputs: dict[str, Any], words: str) -> None:
    record = agent_pool()
    (problem,) = unknown_inputs(replace(record, inputs={**record.inputs, **inputs}))
    assert re.search(words, problem)
