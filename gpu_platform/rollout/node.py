"""One node on its way to another MIG layout: cordon, drain, change, wait, uncordon; one short step at a time.

Everything that it has to know again after an interruption is on the node, so a step can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from gpu_platform import names
from gpu_platform.engine.client import KubernetesClient, Refused
from gpu_platform.engine.objects import items_at, mapping_at
from gpu_platform.planning.sharing.section import MigRollPlan
from gpu_platform.rollout.annotations import Mark, field_manager, is_ready, labels_by, node_document
from gpu_platform.rollout.layouts import again
from gpu_platform.rollout.live import manager_pods
from gpu_platform.rollout.plan import NodeChange, offers
from gpu_platform.rollout.pods import eviction_action, gpu_pods, pod_name

Result = Literal["changed", "gone", "failed", "left", "not-begun"]
_TOLD: Final[Mapping[Result, str]] = {
    "changed": "changed",
    "gone": "gone meanwhile",
    "failed": "failed, and stays cordoned",
    "left": "left as it was",
    "not-begun": "not begun",
}

_EVICT_EVERY_SECONDS: Final = 2.0
_MANAGER_SECONDS: Final = 300.0
# A virtual machine of eight GPUs may reboot for a change of MIG mode.
_CHANGE_SECONDS: Final = 1800.0
# A node that says success and does not offer the instances by then has another trouble, which validation names.
_OFFER_SECONDS: Final = 60.0
_MOST_NAMED: Final = 4


class _Gone(Exception):
    """The node is not there any more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended for one node, and why."""

    change: NodeChange
    result: Result
    why: str = ""

    def __str__(self) -> str:
        return f"{self.change.node}: {_TOLD[self.result]}" + (f": {self.why}" if self.why else "")

    @property
    def is_good(self) -> bool:
        """Whether nothing is left to do for the node."""
        return self.result in {"changed", "gone"}

    def to_json(self) -> dict[str, Any]:
        """Return it for a JSON report."""
        return {**self.change.to_json(), "result": self.result, "why": self.why}


class NodeRoll:
    """The change of one node. Call `step` until there is an `outcome`; `doing` says where it stands.

    `configs_changed`: when the MIG manager's ConfigMap got its last config, which an older manager may not see.
    """

    def __init__(
        self, client: KubernetesClient, change: NodeChange, rules: MigRollPlan, stack: str, configs_changed: str
    ) -> None:
        self.change = change
        self.outcome: Outcome | None = None
        self.doing = "cordoning"
        self._client = client
        self._rules = rules
        self._mark = Mark(stack, change.config)
        self._manager = field_manager(stack)
        self._configs_changed = configs_changed
        self._phase: Callable[[], None] = self._begin
        self._deadline = 0.0
        self._evict_at = 0.0
        self._refusals: dict[str, str] = {}
        self._renewed = False
        self._to_apply: list[str] = []
        self._agreed_at: float | None = None

    def step(self) -> None:
        """Go as far as one goes without waiting; raises UnknownOutcome where the cluster does not answer."""
        try:
            self._phase()
        except _Gone:
            self.outcome = Outcome(self.change, "gone")
        except Refused as refusal:
            self._fail(str(refusal))

    def _go(self, phase: Callable[[], None], doing: str, seconds: float) -> None:
        self._phase, self.doing, self._deadline = phase, doing, time.monotonic() + seconds

    # -- cordon and drain ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self.change.begun and not is_ready(self._node()):
            self._leave("its kubelet is not ready")
            return
        pods = self._pods()
        held = gpu_pods(pods)
        alone = [pod_name(pod) for pod in pods if eviction_action(pod) == "alone"]
        if held and not self._rules.drains:
            named = _listed([str(pod) for pod in held])
            self._leave(
                f"sharing.change is replace, and it runs {named}: replace the node, or write change: drain"
            )
        elif alone:
            self._leave(f"no controller would start {_listed(alone)} again: end it, or move it by hand")
        else:
            self._write(self._mark)
            self._go(self._drain, "draining", self._rules.drain_timeout_seconds)

    def _drain(self) -> None:
        staying = [pod for pod in self._pods() if eviction_action(pod) != "stays"]
        now = time.monotonic()
        if not staying:
            self._go(self._renew_manager, "renewing its MIG manager", _MANAGER_SECONDS)
        elif now > self._deadline:
            reasons = [self._refusals.get(pod_name(pod), f"{pod_name(pod)} has not ended") for pod in staying]
            self._write(None)
            self._leave(f"not empty after {self._rules.drain_timeout_seconds} s: {_listed(reasons)}")
        elif now >= self._evict_at:
            self._evict_at = now + _EVICT_EVERY_SECONDS
            self._refusals = {}
            for pod in staying:
                self._evict(pod)
            blocked = f": {_listed(list(self._refusals.values()))}" if self._refusals else ""
            self.doing = f"draining, {len(staying)} pods left{blocked}"

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

    def _renew_manager(self) -> None:
        """Have the MIG manager's pod start anew where it is older than its configs: a mounted ConfigMap lags."""
        pods = manager_pods(self._client, self.change.node)
        for pod in pods:
            if pod["metadata"]["creationTimestamp"] <= self._configs_changed and not _is_leaving(pod):
                self._client.delete(pod)
                self._renewed = True
        if self._renewed and not any(_is_ready(pod) and not _is_leaving(pod) for pod in pods):
            if time.monotonic() > self._deadline:
                self._fail(f"its MIG manager did not come back within {_MANAGER_SECONDS:.0f} s")
            return
        labels = mapping_at(self._node(), "metadata", "labels")
        wanted = self.change.config
        if labels.get(names.MIG_CONFIG_LABEL) != wanted:
            self._to_apply = [wanted]
        elif labels.get(names.MIG_STATE_LABEL) == "failed":
            # The manager acts on a change of the label; so the layout has two names.
            self._to_apply = [again(wanted), wanted]
        self._apply_next()

    def _apply_next(self) -> None:
        if self._to_apply:
            config = self._to_apply.pop(0)
            # With the label, so that what the manager said of the config before is not taken for its answer.
            asked = {names.MIG_CONFIG_LABEL: config, names.MIG_STATE_LABEL: "pending"}
            self._write(self._mark, {**self.change.labels, **asked})
        self._agreed_at = None
        self._go(self._wait, "waiting for its MIG manager", _CHANGE_SECONDS)

    def _wait(self) -> None:
        node = self._node()
        state = mapping_at(node, "metadata", "labels").get(names.MIG_STATE_LABEL)
        now = time.monotonic()
        if state == "success":
            self._agreed_at = self._agreed_at or now
            if offers(node, self.change.allocatable) or now > self._agreed_at + _OFFER_SECONDS:
                self._changed()
        elif state == "failed":
            self._fail("its MIG manager says failed: see the manager's log, and what holds the GPUs")
        elif now > self._deadline:
            self._fail(f"its MIG manager says {state or 'nothing'} after {_CHANGE_SECONDS / 60:.0f} min")

    def _changed(self) -> None:
        if self._to_apply:
            self._apply_next()
            return
        self._write(None)
        self.outcome = Outcome(self.change, "changed")

    def _leave(self, why: str) -> None:
        self.outcome = Outcome(self.change, "left", why)

    def _fail(self, why: str) -> None:
        self.outcome = Outcome(self.change, "failed", why)
        with suppress(Refused, _Gone):  # a user who may not write nodes has not cordoned it either
            self._write(replace(self._mark, failure=why))

    # -- what is read and written --------------------------------------------------------------------------

    def _node(self) -> dict[str, Any]:
        node = self._client.get("v1", "Node", self.change.node)
        if node is None:
            raise _Gone
        return node

    def _pods(self) -> list[dict[str, Any]]:
        return list(self._client.objects("v1", "Pod", field_selector=f"spec.nodeName={self.change.node}"))

    def _write(self, mark: Mark | None, labels: Mapping[str, str] | None = None) -> None:
        """Apply a cordon with its mark, or none; labels that were applied before stay, but for the state."""
        node = self._node()
        held = dict(labels_by(self._manager, node))
        held.pop(names.MIG_STATE_LABEL, None)
        self._client.apply(node_document(node, {**held, **(labels or {})}, mark), manager=self._manager)


def _is_leaving(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: Mapping[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in items_at(pod, "status", "conditions"))


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return "; ".join(texts[:_MOST_NAMED]) + more
