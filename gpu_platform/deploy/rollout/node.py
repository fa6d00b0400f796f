"""Changes the MIG layout of one node in short steps: cordon, drain, change, wait, uncordon.

The state that a later run needs after an interruption is stored on the node, so that each step can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from gpu_platform.base import names
from gpu_platform.base.quantity import counted, duration_text
from gpu_platform.deploy.rollout.annotations import RolloutAnnotation, field_manager, labels_by, node_document
from gpu_platform.deploy.rollout.drain import ask_evictions
from gpu_platform.deploy.rollout.layouts import retry_name
from gpu_platform.deploy.rollout.live_cluster import manager_pods
from gpu_platform.deploy.rollout.plan import NodeChange, offers
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import is_ready, mapping_at
from gpu_platform.live.pods import eviction_action, gpu_pods, pod_name
from gpu_platform.planning.changes.budgets import Block, blocks_text
from gpu_platform.planning.changes.durations import MIG_MANAGER_SECONDS, MIG_OFFER_SECONDS
from gpu_platform.planning.mig.progress import CHANGE_SECONDS, is_in_progress
from gpu_platform.planning.sharing.section import MigRollPlan

Result = Literal["changed", "gone", "failed", "left", "not-begun"]
_RESULT_TEXTS: Final[Mapping[Result, str]] = {
    "changed": "changed",
    "gone": "deleted meanwhile",
    "failed": "failed, the node stays cordoned",
    "left": "not changed",
    "not-begun": "not started",
}

_EVICT_EVERY_SECONDS: Final = 2.0
_ASK_EVERY_SECONDS: Final = 2.0
_MAX_LISTED: Final = 4


class _Gone(Exception):
    """The node no longer exists."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the MIG rollout on one node, and the reason for the result."""

    change: NodeChange
    result: Result
    why: str = ""

    def __str__(self) -> str:
        return f"{self.change.node}: {_RESULT_TEXTS[self.result]}" + (f": {self.why}" if self.why else "")

    @property
    def is_good(self) -> bool:
        """Whether the node needs no further change."""
        return self.result in {"changed", "gone"}

    def to_json(self) -> dict[str, Any]:
        """Return the outcome for a JSON report."""
        return {**self.change.to_json(), "result": self.result, "why": self.why}


class NodeRoll:
    """Rollout on one node. Call `step` until `outcome` is set. `doing` describes the current phase.

    A node is `taken` once it is cordoned, which requires that every pod on it can be evicted. Until then nothing
    is changed. `configs_changed` is the time of the last change to the MIG manager's ConfigMap. A MIG manager pod
    that started earlier may not see the change.
    """

    def __init__(
        self, client: KubernetesClient, change: NodeChange, rules: MigRollPlan, stack: str, configs_changed: str
    ) -> None:
        self.change = change
        self.outcome: Outcome | None = None
        self.doing = "starting"
        self.taken = change.begun
        self._client = client
        self._rules = rules
        self._annotation = RolloutAnnotation(stack, change.config)
        self._manager = field_manager(stack)
        self._configs_changed = configs_changed
        self._phase: Callable[[], None] = self._begin
        self._begun_at = time.monotonic()
        self._deadline = 0.0
        self._blocks: tuple[Block, ...] = ()
        self._ask_at = 0.0
        self._evicting = False
        self._evict_at = 0.0
        self._refusals: dict[str, str] = {}
        self._restarted = False
        self._to_apply: list[str] = []
        self._succeeded_at: float | None = None

    def step(self) -> None:
        """Run the next steps until the rollout must wait for the node. Raises UnknownOutcome if the cluster does
        not answer.
        """
        try:
            self._phase()
        except _Gone:
            self.outcome = Outcome(self.change, "gone")
        except Refused as refusal:
            if self.taken:
                self._fail(str(refusal))
            else:
                self._leave(str(refusal))

    def _go(self, phase: Callable[[], None], doing: str, seconds: float) -> None:
        self._phase, self.doing, self._deadline = phase, doing, time.monotonic() + seconds

    # -- cordon and drain ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        if time.monotonic() < self._ask_at:
            return
        if not self.change.begun and not is_ready(self._node()):
            self._leave("its kubelet is not ready")
            return
        pods = self._pods()
        held = gpu_pods(pods)
        unmanaged = [pod_name(pod) for pod in pods if eviction_action(pod) == "unmanaged"]
        if held and not self._rules.drains:
            named = _listed([str(pod) for pod in held])
            self._leave(
                f"sharing.change is replace, and the node runs {named}: replace the node, or write change: drain"
            )
        elif unmanaged:
            self._leave(
                f"no controller manages these pods: {_listed(unmanaged)}; delete them, or wait until they end"
            )
        elif not self._is_blocked(pods):
            self._write(self._annotation)
            self.taken = True
            self._go(self._drain, "draining", self._rules.drain_timeout_seconds)

    def _is_blocked(self, pods: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether a pod cannot be evicted now. If a pod can never be evicted, leave the node unchanged."""
        before, now = self._blocks, time.monotonic()
        self._blocks = ask_evictions(self._client, pods)
        self._ask_at = now + _ASK_EVERY_SECONDS
        lasting = [block for block in self._blocks if block.forever]
        # Two checks in a row must agree, because a budget counts fewer pods while a controller replaces a pod.
        if lasting and any(block.forever for block in before):
            self._leave(blocks_text(lasting))
        elif self._blocks and self.taken and now > self._begun_at + self._rules.drain_timeout_seconds:
            self.give_up()  # an earlier run cordoned this node, so the node has a separate time limit
        elif self._blocks:
            self.doing = f"waiting for disruption budgets: {blocks_text(self._blocks)}"
        return bool(self._blocks)

    def give_up(self) -> None:
        """Stop waiting for disruption budgets, and leave the node unchanged."""
        waited = duration_text(self._rules.drain_timeout_seconds)
        self._leave(f"its pods could not be evicted within {waited}: {blocks_text(self._blocks)}")

    def _drain(self) -> None:
        remaining = [pod for pod in self._pods() if eviction_action(pod) != "keep"]
        now = time.monotonic()
        if not remaining:
            self._go(self._restart_manager, "restarting its MIG manager", MIG_MANAGER_SECONDS)
        elif now > self._deadline:
            reasons = [self._refusals.get(pod_name(pod), f"{pod_name(pod)} has not ended") for pod in remaining]
            self._leave(
                f"not drained within {duration_text(self._rules.drain_timeout_seconds)}: {_listed(reasons)}"
            )
        elif not self._evicting and self._is_blocked(remaining):
            # Pods were added, or budgets changed, between the check and the cordon.
            self._release()
            self._phase = self._begin
        elif now >= self._evict_at:
            self._evicting = True
            self._evict_at = now + _EVICT_EVERY_SECONDS
            self._refusals = {}
            for pod in remaining:
                self._evict(pod)
            blocked = f": {_listed(list(self._refusals.values()))}" if self._refusals else ""
            self.doing = f"draining, {counted(len(remaining), 'pod')} left{blocked}"

    def _evict(self, pod: Mapping[str, Any]) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            return
        try:
            self._client.evict(pod)
        except Refused as refusal:
            if refusal.status == 403:
                raise
            self._refusals[pod_name(pod)] = f"{pod_name(pod)}: {refusal.message}"

    # -- change --------------------------------------------------------------------------------------------

    def _restart_manager(self) -> None:
        """Delete the MIG manager's pod if it is older than its configs, or if it has stopped without a result.

        The pod would see new configs late, because the kubelet updates a mounted ConfigMap with a delay.
        """
        pods = [pod for pod in manager_pods(self._client, self.change.node) if not _is_leaving(pod)]
        stopped = self.change.stuck and not self._restarted
        old = [pod for pod in pods if stopped or pod["metadata"]["creationTimestamp"] <= self._configs_changed]
        for pod in old:
            self._client.delete(pod)
            self._restarted = True
        # A pod that was just deleted may still have been listed as ready.
        if self._restarted and not any(is_ready(pod) for pod in pods if pod not in old):
            if time.monotonic() > self._deadline:
                self._fail(f"its MIG manager did not become ready within {duration_text(MIG_MANAGER_SECONDS)}")
            return
        labels = mapping_at(self._node(), "metadata", "labels")
        wanted = self.change.config
        if labels.get(names.MIG_CONFIG_LABEL) != wanted:
            self._to_apply = [wanted]
        elif self.change.stuck or labels.get(names.MIG_STATE_LABEL) == "failed":
            # The manager only reacts to a change to the label, so a retry uses the second name first.
            self._to_apply = [retry_name(wanted), wanted]
        self._apply_next()

    def _apply_next(self) -> None:
        if self._to_apply:
            config = self._to_apply.pop(0)
            # Reset the state too, because it still belongs to the previous config.
            requested = {names.MIG_CONFIG_LABEL: config, names.MIG_STATE_LABEL: "pending"}
            self._write(self._annotation, {**self.change.labels, **requested})
        self._succeeded_at = None
        self._go(self._wait, "waiting for its MIG manager", CHANGE_SECONDS)

    def _wait(self) -> None:
        node = self._node()
        state = mapping_at(node, "metadata", "labels").get(names.MIG_STATE_LABEL)
        now = time.monotonic()
        if state == "success":
            self._succeeded_at = self._succeeded_at or now
            if offers(node, self.change.allocatable) or now > self._succeeded_at + MIG_OFFER_SECONDS:
                self._changed()
        elif state == "failed":
            self._fail("its MIG manager reports state failed: check its log, and which processes use the GPUs")
        elif now > self._deadline:
            way_on = "; the next run restarts it and requests the layout again" if is_in_progress(node) else ""
            self._fail(
                f"state of its MIG manager is {state or 'not set'} after {duration_text(CHANGE_SECONDS)}{way_on}"
            )

    def _changed(self) -> None:
        if self._to_apply:
            self._apply_next()
            return
        self._write(None)
        self.outcome = Outcome(self.change, "changed")

    def _leave(self, why: str) -> None:
        self._release()
        self.outcome = Outcome(self.change, "left", why)

    def _release(self) -> None:
        """Remove the cordon if this rollout has set it."""
        if self.taken:
            self._write(None)
        self.taken = False

    def _fail(self, why: str) -> None:
        self.outcome = Outcome(self.change, "failed", why)
        with suppress(Refused, _Gone):  # a user who may not write nodes has not cordoned the node either
            self._write(replace(self._annotation, failure=why))

    # -- reads and writes ----------------------------------------------------------------------------------

    def _node(self) -> dict[str, Any]:
        node = self._client.get("v1", "Node", self.change.node)
        if node is None:
            raise _Gone
        return node

    def _pods(self) -> list[dict[str, Any]]:
        return list(self._client.objects("v1", "Pod", field_selector=f"spec.nodeName={self.change.node}"))

    def _write(self, reason: RolloutAnnotation | None, labels: Mapping[str, str] | None = None) -> None:
        """Apply or remove the cordon with its annotation. Labels applied earlier are kept, except the MIG state
        label.
        """
        node = self._node()
        held = dict(labels_by(self._manager, node))
        held.pop(names.MIG_STATE_LABEL, None)
        self._client.apply(node_document(node, {**held, **(labels or {})}, reason), manager=self._manager)


def _is_leaving(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MAX_LISTED} more" if len(texts) > _MAX_LISTED else ""
    return "; ".join(texts[:_MAX_LISTED]) + more
