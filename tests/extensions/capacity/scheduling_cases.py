"""Small nodes and pods for the tests of the simulated scheduler."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st

from extensions.capacity.scheduling.model import (
    CPU,
    GIB,
    MEMORY,
    PODS,
    Node,
    PodGroup,
    RunningPod,
    Scenario,
    Toleration,
    free_of,
)
from extensions.capacity.scheduling.schedule import Placement

GPU = "nvidia.com/gpu"
SHARE = "nvidia.com/gpu.shared"
SLICE = "nvidia.com/mig-1g.10gb"
TOLERATES = (Toleration(key=GPU, operator="Exists"),)


def node(
    name: str = "n0", *, cpu: int = 32, memory: int = 128, pods: int = 50, pool: str = "train", **units: int
) -> Node:
    """Return a node with `cpu` cores and `memory` GiB.

    `units` can contain `gpus` and `shares`, the numbers of whole and shared GPUs. A shared GPU offers four units.
    """
    gpus = ({GPU: 1},) * units.get("gpus", 0) + ({SHARE: 4},) * units.get("shares", 0)
    offered = Counter[str]()
    for gpu in gpus:
        offered.update(gpu)
    return Node(
        name=name,
        pool=pool,
        allocatable={CPU: cpu * 1000, MEMORY: memory * GIB, PODS: pods, **offered},
        labels={"pool": pool},
        gpus=gpus,
    )


def pods(
    name: str, count: int = 1, *, cpu: float = 1, memory: float = 1, team: str = "vision", **rest: object
) -> PodGroup:
    """Return a group of pods. `rest` may contain `gpus` and `shares` (units per pod), and fields of PodGroup."""
    requests = {CPU: int(cpu * 1000), MEMORY: int(memory * GIB)}
    for key, resource in (("gpus", GPU), ("shares", SHARE)):
        if key in rest:
            requests[resource] = int(str(rest.pop(key)))
    # pyrefly: ignore[bad-argument-type]
    return PodGroup(name=name, team=team, requests=requests, count=count, **rest)


def pending_of(scenario: Scenario, placement: Placement) -> dict[str, int]:
    """Return the number of pending pods of each group."""
    found = Counter[str]()
    for one in placement.pending:
        found[scenario.groups[one.group].name] += one.count
    return dict(found)


def used_of(scenario: Scenario, placement: Placement) -> list[Counter[str]]:
    """Return the total requests of the pods on each node, computed only from the assignments."""
    used = [Counter[str]() for _ in scenario.nodes]
    for one in scenario.running:
        used[one.node].update(one.pod.needs())
    for one in placement.assignments:
        used[one.node].update(scenario.groups[one.group].needs())
    return used


def assert_no_node_is_over(scenario: Scenario, placement: Placement) -> None:
    for one, used in zip(scenario.nodes, used_of(scenario, placement), strict=True):
        for name, amount in used.items():
            most = free_of(name, one.allocatable)
            assert most is None or amount <= most, (one.name, name, amount, most)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw up to five nodes with whole or shared GPUs, up to five groups of pods, some quotas and some running
    pods.
    """
    nodes = tuple(
        node(
            f"n{index}",
            cpu=draw(st.integers(4, 32)),
            memory=draw(st.integers(8, 64)),
            pods=draw(st.sampled_from([2, 50])),
            pool=(pool := draw(st.sampled_from(["train", "serve"]))),
            **({"gpus": draw(st.integers(1, 8))} if pool == "train" else {"shares": draw(st.integers(1, 2))}),
        )
        for index in range(draw(st.integers(1, 5)))
    )

    def group(name: str, most: int) -> PodGroup:
        device = draw(st.sampled_from(["gpus", "shares", "none"]))
        return pods(
            name,
            draw(st.integers(1, most)),
            cpu=draw(st.sampled_from([0.5, 2, 7, 16])),
            memory=draw(st.sampled_from([1, 6, 20])),
            team=draw(st.sampled_from(["vision", "search"])),
            priority=draw(st.sampled_from([0, 100])),
            node_selector=draw(st.sampled_from([{}, {"pool": "train"}])),
            **({} if device == "none" else {device: draw(st.integers(1, 4 if device == "gpus" else 2))}),
        )

    groups = tuple(group(f"g{index}", 5) for index in range(draw(st.integers(1, 5))))
    running: list[RunningPod] = []
    free = [Counter(one.allocatable) for one in nodes]
    for index in range(draw(st.integers(0, 4))):
        pod, place = group(f"r{index}", 1), draw(st.integers(0, len(nodes) - 1))
        if all(free[place][name] >= amount for name, amount in pod.needs().items()):
            free[place].subtract(pod.needs())
            running.append(
                RunningPod(node=place, pod=pod, controller=draw(st.sampled_from(["", f"Deployment r{index}"])))
            )
    quotas = {
        "vision": {f"requests.{GPU}": draw(st.integers(0, 12)), "requests.cpu": draw(st.integers(0, 60)) * 1000}
    }
    return Scenario(
        nodes=nodes,
        groups=groups,
        quotas=quotas if draw(st.booleans()) else {},
        running=tuple(running),
    )
