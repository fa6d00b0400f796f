"""Generates small random stack files that test the planner's proofs. It does not use the planner."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from brute_force import MACHINES, Node, empty_nodes

CLUSTERS: Final[dict[str, dict[str, Any]]] = {
    "sandbox": {"provider": "sandbox"},
    "existing": {"provider": "existing", "kubeconfig": "~/.kube/config", "context": "ml"},
    "eks": {
        "provider": "eks",
        "name": "ml",
        "region": "us-east-2",
        "account": "123456789012",
        "kubernetes": "1.35",
        "create": {"admins": ["arn:aws:iam::123456789012:role/admin"]},
    },
    "gke": {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1", "create": {}},
}
_VENDORS: Final = {"eks": ("aws",), "gke": ("gcp",)}
_LAYOUTS: Final = ({"1g": 7}, {"3g": 2}, {"2g": 3}, {"3g": 1, "2g": 1, "1g": 2}, {"4g": 1, "1g": 3}, {"7g": 1})
_PROFILES: Final = {"1g": 5, "2g": 10, "3g": 20, "4g": 20, "7g": 40}


def random_stack(seed: int) -> dict[str, Any]:
    """Return a stack file as a document. The planner refuses some of the generated stacks."""
    draw = Random(seed)
    provider = draw.choice(list(CLUSTERS))
    pools = [_pool(draw, provider, name) for name in "abc"[: draw.choice((1, 1, 2, 2, 3))]]
    nodes = empty_nodes({"cluster": CLUSTERS[provider], "pools": pools})
    return {
        "kind": "environment",
        "cluster": CLUSTERS[provider],
        "pools": pools,
        "teams": [
            _team(draw, name, pools, nodes) for name in ("red", "green", "blue")[: draw.choice((1, 2, 2, 3))]
        ],
        "overcommit": draw.choice((1.0, 1.0, 2.0, 4.0)),
    }


def _pool(draw: Random, provider: str, name: str) -> dict[str, Any]:
    machines = [key for key, one in MACHINES.items() if one.vendor in _VENDORS.get(provider, (one.vendor,))]
    machine_type = draw.choice([key for key in machines if MACHINES[key].gpus] * 3 + machines)
    machine = MACHINES[machine_type]
    large = machine.gpus >= 4
    desired = draw.choice((0, 1, 1) if large else (0, 1, 1, 2, 2, 3))
    pool: dict[str, Any] = {
        "name": name,
        "machine_type": machine_type,
        "count": {"desired": desired},
        "workload": draw.choice(("training", "inference", "development")) if machine.gpus else "general",
    }
    if machine.gpus and draw.random() < 0.6:
        pool["sharing"] = _sharing(draw, machine_type)
    if (desired == 0 or draw.random() < 0.3) and not (provider == "gke" and "sharing" in pool):
        pool["count"]["max"] = desired + draw.choice((1, 1, 2))
    if draw.random() < 0.2:
        pool["taints"] = [{"key": "example.com/reserved", "value": name, "effect": "NoSchedule"}]
    if machine.gpus > 1 and draw.random() < 0.3:
        policies = ("none", "best-effort", "restricted", "restricted", "single-numa-node")
        pool["topology"] = {"policy": draw.choice(policies)}
    if provider == "eks":
        pool["zones"] = ["us-east-2a"]
        if machine.efa:
            pool["network"] = {"rdma": draw.random() < 0.6}
    if provider == "gke":
        pool["zones"] = ["us-central1-a"]
    if provider == "existing":
        if draw.random() < 0.5:
            pool["nodes"] = {"selector": {"pool": name}}
        else:
            pool["nodes"] = {"names": [f"{name}-{number}" for number in range(max(1, desired))]}
            pool["count"] = {"desired": max(1, desired)}
    return pool


def _sharing(draw: Random, machine_type: str) -> dict[str, Any]:
    cut = machine_type.startswith(("a2", "p4d", "dgx"))
    mode = draw.choice(("time-slicing", "mps", *["mig"] * 3 * cut))
    if mode != "mig":
        return {"mode": mode, "replicas": draw.choice((2, 3, 4, 12))}
    scale = 2 if machine_type.startswith("dgx") else 1
    layout = {f"{name}.{_PROFILES[name] * scale}gb": count for name, count in draw.choice(_LAYOUTS).items()}
    sharing: dict[str, Any] = {"mode": "mig", "layout": layout}
    if MACHINES[machine_type].gpus > 1 and draw.random() < 0.4:
        sharing = {"mode": "mig", "layouts": [{"devices": [0], "layout": layout}]}
    elif len(layout) == 1 and draw.random() < 0.25:
        sharing["strategy"] = "single"
    if draw.random() < 0.2:
        sharing["replicas"] = 2
    return sharing


def _team(draw: Random, name: str, pools: list[dict[str, Any]], nodes: list[Node]) -> dict[str, Any]:
    team: dict[str, Any] = {
        "name": name,
        "priority": draw.choice(("training", "inference")),
        "members": [f"group:{name}@example.com"],
        "quota": {},
        "workloads": [],
    }
    quota = team["quota"]
    for pool, node in zip(pools, nodes, strict=True):
        machine = MACHINES[pool["machine_type"]]
        sharing = pool.get("sharing", {"mode": "none"})
        if draw.random() < 0.3:
            continue
        workload = _workload(draw, pool, node, len(team["workloads"])) if draw.random() < 0.5 else None
        if workload is not None:
            team["workloads"].append(workload)
        declared = workload.get("replicas", 1) * workload.get("gpus", 1) if workload is not None else 0
        count = declared + draw.choice((0, 0, 1, 1, 2, 3, 4))
        if sharing.get("replicas", 1) == 12:
            count += draw.choice((0, 8, 9, 10))
        replicated = sharing.get("replicas", 1) > 1
        if not machine.gpus:
            continue
        if sharing["mode"] == "mig" and sharing.get("strategy") != "single":
            layout = sharing.get("layout") or sharing["layouts"][0]["layout"]
            profile = workload["profile"] if workload is not None else draw.choice(list(layout))
            kind = quota.setdefault("mig_shared" if replicated else "mig", {})
            kind[profile] = kind.get(profile, 0) + count
        else:
            kind = "shared" if replicated else "gpus"
            quota[kind] = quota.get(kind, 0) + count
    if draw.random() < 0.6:
        declared = sum(one["replicas"] * int(one["cpu"][:-1]) for one in team["workloads"])
        quota["cpu"] = f"{declared + 1000 * draw.choice((0, 1, 2, 3, 4, 7, 10, 12, 14, 24, 48, 100))}m"
    if draw.random() < 0.5:
        declared = sum(one["replicas"] * int(one["memory"][:-2]) for one in team["workloads"]) // 1024 + 1
        quota["memory"] = f"{declared + draw.choice((0, 3, 7, 10, 13, 16, 29, 30, 60, 90, 200, 1000))}Gi"
    return team


def _workload(draw: Random, pool: dict[str, Any], node: Node, number: int) -> dict[str, Any]:
    machine = MACHINES[pool["machine_type"]]
    sharing = pool.get("sharing", {"mode": "none"})
    workload: dict[str, Any] = {
        "name": f"w{number}",
        "pool": pool["name"],
        "replicas": draw.choice((1, 1, 1, 2, 2, 3)),
        "cpu": f"{_part(draw, node.cpu)}m",
        "memory": f"{_part(draw, node.memory)}Mi",
    }
    if not machine.gpus:
        workload["gpus"] = 0
    elif sharing["mode"] == "none":
        workload["gpus"] = min(draw.choice((1, 1, 2, 3, 3, 4, 5, machine.gpus)), machine.gpus)
    elif sharing["mode"] == "mig":
        layout = sharing.get("layout") or sharing["layouts"][0]["layout"]
        workload["profile"] = draw.choice(list(layout))
    return workload


def _part(draw: Random, free: int) -> int:
    """Return a random amount to request out of `free`: all, half, a third or a quarter of it, possibly plus one
    unit, or another fraction of it.
    """
    if draw.random() < 0.4:
        return max(1, free // draw.choice((1, 2, 3, 4)) + draw.choice((0, 0, 1)))
    return max(100, int(free * draw.choice((0.1, 0.24, 0.3, 0.45, 0.6, 0.9))))
