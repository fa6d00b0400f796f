"""Limits for a team's KEDA triggers. The policy pack and the admission rules both check them.

KEDA's operator queries the servers of triggers from its own namespace and with its own identity. The network
policies and permissions of the team do not apply to these queries. Each limit is defined only here. The two checks
are separate implementations. A test compares their verdicts.

Sources: KEDA docs 2.18, scalers Prometheus and Metrics API, "Authentication providers"; kedacore/keda,
prometheus_scaler.go (serverAddress comes only from the trigger); CVE-2025-68476 (HashiCorp Vault: the operator
reads a path that the member chooses and sends it to a server that the member chooses). Read 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROMETHEUS: Final = "http://prometheus-operated.monitoring.svc:9090"
"""The Service that the Prometheus operator of `addons.prometheus` creates, regardless of the name of its Helm
release.
"""
HARMLESS_TRIGGERS: Final = ("cpu", "memory", "cron", "kubernetes-workload")
"""Types of triggers that make KEDA query only the API server, and only about the trigger's own namespace."""
ADDRESSES: Final[Mapping[str, str]] = {"metrics-api": "url", "prometheus": "serverAddress"}
"""Name of the field that contains the server's address, by trigger type. Only types with a single such field are
listed.
"""
AUTHENTICATION: Final = ("configMapTargetRef", "env", "secretTargetRef")
"""Fields of a TriggerAuthentication that only read objects in the same namespace and do not use KEDA's identity.
"""
FOREIGN_AUTHENTICATION: Final = "ClusterTriggerAuthentication"
"""Kind of object that contains credentials of the cluster's administrators."""
