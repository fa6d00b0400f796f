"""For every field of the workloads that teams declare, a stack that uses the field, and other values for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_IMAGE = "registry.example.com/train:1.0"
_RUN: Mapping[str, Any] = {"name": "one", "pool": "train", "image": _IMAGE, "command": ["python", "run.py"]}
_WORKERS: Mapping[str, Any] = {"name": "gpu", "pool": "train"}
_RAY: Mapping[str, Any] = {"name": "one", "image": _IMAGE, "version": "2.49.0", "head": {}, "workers": [_WORKERS]}
_ENTRIES: Mapping[str, Mapping[str, Any]] = {
    "training_jobs": _RUN,
    "inference_services": {"name": "one", "pool": "train", "image": _IMAGE},
    "ray_clusters": _RAY,
    "notebooks": {"name": "one", "pool": "train"},
    "batch_jobs": _RUN,
}
_KEPT = {"training_jobs": "checkpoints", "notebooks": "home"}
_DIRECTORY = {"directory": "/kept", "storage_class": "fast", "size": "10Gi"}
_SCALING = {"max_replicas": 4, "query": "up", "threshold": 2.0}
_KAFKA = {"servers": ["kafka.streams.svc:9092"], "topic": "questions", "consumer_group": "chat"}
_ROUTE = {"gateway": "edge/public"}
_ADDONS = {"kuberay": "install", "keda": "install", "gateway": "install", "prometheus": "install"}
_MIXED = {"mode": "mig", "layout": {"1g.10gb": 1, "2g.20gb": 1}}


def contexts(by: Any, other_pool: Any, dra: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path of each field and the values that the stack needs for it.

    `by`, `other_pool` and `dra` are helpers and values of `field_cases`.
    """
    kept = {"storage.fast": by(None, eks={"type": "disk"}, gke={"type": "disk"}, aks={"type": "disk"})}
    data = {"type": "bucket", "bucket": "acme-datasets", "read_only": False}
    more = {**data, "bucket": "acme-more"}
    volumes = {"storage.data": by(None, eks=data, gke=data), "storage.more": by(None, eks=more, gke=more)}
    for kind, entry in _ENTRIES.items():
        at = f"teams[].{kind}"
        ray = kind == "ray_clusters"
        requests = f"{at}[].workers[]" if ray else f"{at}[]"

        def with_(fields: Mapping[str, Any], entry: Mapping[str, Any] = entry, ray: bool = ray) -> list[Any]:
            return [{**entry, "workers": [{**_WORKERS, **fields}]} if ray else {**entry, **fields}]

        addons = {"addons": by({"kuberay": "install"}, sandbox={})} if ray else {}
        yield at, {"teams[0].quota": {"gpus": 8}, f"teams[0].{kind}": [entry], **addons}
        yield f"{requests}.pool", {"pools[1]": other_pool}
        yield (
            f"{requests}.profile",
            {
                "pools[0].sharing": _MIXED,
                "teams[0].quota": {"mig": {"1g.10gb": 4, "2g.20gb": 4}},
                f"teams[0].{kind}": with_({"profile": "1g.10gb"}),
            },
        )
        yield (
            f"{requests}.claim",
            {
                **dra,
                "teams[0].quota": {"devices": {"gpu.nvidia.com": 8}},
                "teams[0].claims": [{"name": "one"}, {"name": "two"}],
                f"teams[0].{kind}": with_({"claim": "one"}),
            },
        )
        yield f"{at}[].volumes", volumes
        if name := _KEPT.get(kind):
            yield f"{at}[].{name}", {**kept, f"teams[0].{kind}": [{**entry, name: _DIRECTORY}]}
            volume = {"directory": "/kept", "volume": "data"}
            yield f"{at}[].{name}.volume", {**volumes, f"teams[0].{kind}": [{**entry, name: volume}]}
            other = {"storage.other": by(None, eks={"type": "disk"}, gke={"type": "disk"})}
            yield f"{at}[].{name}.storage_class", {**kept, **other}
    service = _ENTRIES["inference_services"]
    at, place = "teams[].inference_services[]", "teams[0].inference_services"
    scaled = [{**service, "autoscaling": _SCALING}]
    yield f"{at}.autoscaling", {"addons": by(_ADDONS, sandbox={}), place: scaled}
    by_lag = [{**service, "autoscaling": {**_SCALING, "kafka": _KAFKA}}]
    consent = {"teams[0].scaling": {"triggers": ["kafka"]}}
    yield f"{at}.autoscaling.kafka", {"addons": by(_ADDONS, sandbox={}), **consent, place: by_lag}
    reached = [{"namespace": "envoy-gateway-system", "ports": [8080]}]
    yield (
        f"{at}.route",
        {"addons": by(_ADDONS, sandbox={}), "teams[0].ingress": reached, place: [{**service, "route": _ROUTE}]},
    )
    yield f"{at}.nodes", {"addons": by({"leaderworkerset": "install"}, sandbox={})}
    cpu = {"name": "cpu", "machine_type": "m7i.4xlarge", "count": {"desired": 1}, "workload": "general"}
    yield "teams[].ray_clusters[].head.pool", by({}, eks={"pools[1]": cpu})
    jobs = [{**_RUN, "gpus": 8, "replicas": 2}]
    topology = {"queueing": {"topology": True}, "teams[0].quota": {"gpus": 16}, "teams[0].training_jobs": jobs}
    topology |= {"pools[0].count": {"desired": 2}}
    yield "teams[].training_jobs[].topology", by({}, eks=topology, gke=topology)
    yield "teams[].training_jobs[].api", {"addons": by({"trainer": "install"}, sandbox={})}


def alternatives() -> Iterator[tuple[str, list[Any]]]:
    """Yield the path of each field and its other values."""
    for kind in _ENTRIES:
        at = f"teams[].{kind}[]"
        requests = f"{at}.workers[]" if kind == "ray_clusters" else at
        yield f"{at}.name", ["other"]
        yield f"{at}.image", ["registry.example.com/other:2.0"]
        yield f"{at}.env", [{"NCCL_DEBUG": "INFO"}]
        yield f"{at}.secrets", [["wandb"]]
        yield f"{at}.volumes", [{"data": "/data"}]
        yield f"{at}.run_as_user", [1000]
        yield f"{requests}.pool", ["other"]
        yield f"{requests}.gpus", [2]
        yield f"{requests}.profile", ["2g.20gb"]
        yield f"{requests}.claim", ["two"]
        yield f"{requests}.gpu_memory", ["10Gi"]
        yield f"{requests}.cpu", ["2"]
        yield f"{requests}.memory", ["8Gi"]
        yield f"{requests}.shared_memory", ["1Gi"]
        if kind != "notebooks":
            yield f"{requests}.replicas", [2]
        if kind != "ray_clusters":
            yield f"{at}.command", [["python", "other.py"]]
        if name := _KEPT.get(kind):
            yield f"{at}.{name}.directory", ["/elsewhere"]
            yield f"{at}.{name}.volume", ["more"]
            yield f"{at}.{name}.storage_class", ["other"]
            yield f"{at}.{name}.size", ["20Gi"]
    for kind in ("training_jobs", "notebooks", "batch_jobs"):
        yield f"teams[].{kind}[].deadline", ["2h"]
    for kind in ("training_jobs", "batch_jobs"):
        yield f"teams[].{kind}[].stop_on", [[3]]
    yield "teams[].training_jobs[].interrupted_on", [[76]]
    yield "teams[].training_jobs[].processes", [4]
    yield "teams[].training_jobs[].grace", ["5m"]
    yield "teams[].batch_jobs[].parts", [10]
    yield "teams[].batch_jobs[].schedule", ["0 2 * * *"]
    yield "teams[].notebooks[].idle", ["2h"]
    at = "teams[].inference_services[]"
    yield f"{at}.health_path", ["/ready"]
    yield f"{at}.startup", ["30m"]
    yield f"{at}.grace", ["5m"]
    yield f"{at}.nodes", [2]
    yield f"{at}.autoscaling.max_replicas", [5]
    yield f"{at}.autoscaling.query", ["sum(up)"]
    yield f"{at}.autoscaling.threshold", [3.0]
    yield f"{at}.autoscaling.cool_down", ["10m"]
    yield f"{at}.autoscaling.kafka", [_KAFKA]
    yield f"{at}.autoscaling.kafka.servers", [["kafka.other.svc:9092"]]
    yield f"{at}.autoscaling.kafka.topic", ["answers"]
    yield f"{at}.autoscaling.kafka.consumer_group", ["other"]
    yield f"{at}.autoscaling.kafka.lag", [50]
    yield f"{at}.autoscaling.kafka.authentication", ["kafka-login"]
    yield f"{at}.autoscaling.server", ["http://prometheus.obs.svc:9090"]
    yield f"{at}.route.gateway", ["edge/other"]
    yield f"{at}.route.hostname", ["chat.example.com"]
    yield f"{at}.route.path", ["/chat"]
    yield f"{at}.route.timeout", ["30m"]
    at = "teams[].ray_clusters[]"
    yield f"{at}.version", ["2.50.0"]
    yield f"{at}.workers[].name", ["other"]
    yield f"{at}.head.cpu", ["4"]
    yield f"{at}.head.memory", ["16Gi"]
    yield f"{at}.head.pool", ["cpu"]
