"""Programs that use the public components, recorded in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import pytest

from gpu_platform.deploy.recorded.record import ProgramError, record_program
from tests.components.conftest import PROGRAMS, Recorded

DECLARATION: ContextVar[Callable[[], object]] = ContextVar("declaration")

SANDBOX: Mapping[str, Any] = {"provider": "sandbox", "name": "local"}
EXISTING: Mapping[str, Any] = {"provider": "existing", "name": "dev", "kubernetes": "1.36"}
EKS: Mapping[str, Any] = {
    "provider": "eks",
    "name": "ml",
    "region": "us-east-2",
    "kubernetes": "1.35",
    "subnets": {"us-east-2a": "subnet-0a1b2c3d4e5f60718"},
    "cluster_security_group_id": "sg-0a1b2c3d4e5f60718",
    "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
}
GKE: Mapping[str, Any] = {
    "provider": "gke",
    "name": "ml",
    "project": "my-project",
    "location": "us-central1",
    "node_service_account": "gpu-nodes@my-project.iam.gserviceaccount.com",
}
AKS: Mapping[str, Any] = {
    "provider": "aks",
    "name": "ml",
    "subscription": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
    "resource_group": "ml",
    "region": "eastus2",
    "kubernetes": "1.35",
}
TRAIN: Mapping[str, Any] = {"machine_type": "p4de.24xlarge", "count": {"desired": 2}, "workload": "training"}


def recorded(declare: Callable[[], object], *, stack: str = "test") -> Recorded:
    """Return the resources that a program registers when it runs `declare`."""
    token = DECLARATION.set(declare)
    try:
        program = PROGRAMS / "declared_by_the_test.py"
        return Recorded(record_program(program, project="mine", stack=stack, config={}))
    finally:
        DECLARATION.reset(token)


def refused(declare: Callable[[], object]) -> str:
    """Return the message of the error that stops a program."""
    with pytest.raises(ProgramError) as error:
        recorded(declare)
    return str(error.value)
