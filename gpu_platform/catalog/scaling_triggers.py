"""Limits of KEDA triggers of a team, which the policy pack and the admission rules both check.

KEDA's operator asks the servers of triggers from its own namespace and with its own identity, past the network
policies and the rights of the team. Each limit is defined here once; the two judge by code of their own, and a
test compares their verdicts.

Sources: KEDA docs 2.18, scalers Prometheus and Metrics API, "Authentication providers"; kedacore/keda,
prometheus_scaler.go (serverAddress comes from the trigger alone); CVE-2025-68476 (HashiCorp Vault: a path of the
member's choice is read in the operator and sent to a server of the member's choice). Read 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROMETHEUS: Final = "http://prometheus-operated.monitoring.svc:9090"
"""The Service that the Prometheus operator of `addons.prometheus` makes, whatever its release is called."""
HARMLESS_TRIGGERS: Final = ("cpu", "memory", "cron", "kubernetes-workload")
"""Types of triggers for which KEDA asks nobody but the API server about the namespace itself."""
ADDRESSES: Final[Mapping[str, str]] = {"metrics-api": "url", "prometheus": "serverAddress"}
"""Types of triggers whose server is in one field, by type."""
AUTHENTICATION: Final = ("configMapTargetRef", "env", "secretTargetRef")
"""Fields of a TriggerAuthentication that read objects of its own namespace, and nothing of KEDA's identity."""
FOREIGN_AUTHENTICATION: Final = "ClusterTriggerAuthentication"
"""Kind whose credentials are those of the cluster's administrators."""
