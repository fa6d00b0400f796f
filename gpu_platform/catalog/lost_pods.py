"""Conditions of pods that were disrupted, for example by an eviction. Such a pod has not failed, so it does not
count as an attempt of its job.

Sources: Kubernetes docs, "Pod disruption conditions" (eviction, preemption, a deleted node); kubernetes-sigs/kueue
v0.19.2, pkg/controller/tas/node_controller.go (a pod that is pinned to a tainted node; with kueue#14917 also the
pods that replace a lost pod on that node). Read 2026-11-28.
"""

from __future__ import annotations

from typing import Final

LOST_CONDITIONS: Final = ("DisruptionTarget", "TerminatedByKueue")
