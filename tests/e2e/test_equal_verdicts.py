"""The policy pack (before a deployment) and the API server (at admission) refuse the same objects, rule by rule.

The API server names only the first violated rule of a policy, in the policy's order. The pack names all violated
rules. If the two differ on purpose, a test below states which of them is stricter, and for which objects. The docs
explain this in "Where the two differ".
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.catalog.scaling_triggers import PROMETHEUS
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from policies import evaluate
from sandbox import control_plane
from tests.components.aks.aks_recorded import EXISTING, ID
from tests.e2e.conftest import BASE
from tests.e2e.debugger import debug
from tests.e2e.fabric_namespaces import apply_team, honest, pod, refusal, remove
from tests.support.counted_kinds import uncounted
from tests.support.eventually import eventually
from tests.support.fabric_pods import fabric_pods, platform_of
from tests.support.permissive import KEDA, ROUTES, TRAIN_JOBS, permissive
from tests.support.restricted import CONTAINER, satisfying
from tests.support.size import size

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-fabric")]

Object = dict[str, Any]
BYPASS = "gpu-visible-devices-bypass"
ANNOTATION = "gpu-device-annotation"
RUNTIME = "gpu-runtime-class"
TOLERATION = "gpu-wildcard-toleration"
NODE_NAME = "gpu-node-name"
SHARES = "gpu-shared-request-one"
MOST = "gpu-max-per-container"
ALIGNMENT = "gpu-numa-alignment"
ADDRESS = "service-external-address"
EXTERNAL_NAME = "service-external-name"
CLAIM = "gpu-claim-requests"
SERVER = "keda-trigger-server"
IDENTITY = "keda-trigger-identity"
ROUTE_HOST = "route-host"
NETWORK = "pod-network-annotation"
ROUTE_ANNOTATION = "route-annotation"
VOLUME = "volume-source"
KEEPING = "node-keeping"
OF_OBJECTS = (ADDRESS, EXTERNAL_NAME, CLAIM, SERVER, IDENTITY, ROUTE_HOST, ROUTE_ANNOTATION)
OF_PODS = {BYPASS, ANNOTATION, NETWORK, RUNTIME, TOLERATION, NODE_NAME, SHARES, MOST, VOLUME, KEEPING}
OF_ALIGNED_PODS = OF_PODS | {ALIGNMENT}
# Only admission refuses it. The program itself declares pods of pools, and members can write any pod.
OUTSIDE_POOLS = "node-outside-pools"
HOST = "gpu-privileged-hostpath"
EQUAL = "gpu-requests-equal-limits"
NO_RULE = "admitted"
ADMISSION = "admissionregistration.k8s.io/v1"

SHARED_L4 = {
    "name": "serve",
    "machine_type": "g2-standard-24",
    "workload": "inference",
    "sharing": {"mode": "time-slicing", "replicas": 4},
    "device_plugin": "provider",
}


SCALING = {"servers": ["http://metrics.obs.svc:80/"], "triggers": ["aws-sqs-queue"]}
ROUTED = {"hosts": ["a.example.com", "*.b.example.com"], "annotations": ["tailscale.com/expose"]}
OF_TEAM = {"scaling": SCALING, "routes": ROUTED}


def of_gke(*pools: Object, **team: Any) -> Object:
    """Return a stack on GKE with a pool of eight-GPU H100 nodes and the given pools."""
    platform = platform_of("gke", "a3-megagpu-8g", None, {**OF_TEAM, **team})
    platform["pools"] += [
        {"count": {"desired": 2}, "zones": ["us-central1-a"], "placement": {"type": "none"}, **one}
        for one in pools
    ]
    return platform


def shares_alone() -> Object:
    platform = of_gke(SHARED_L4, name="equal-shares", quota={"gpus": 8}, priority="inference")
    platform["pools"] = platform["pools"][1:]
    return platform


PLATFORMS: dict[str, Object] = {
    "operator": {
        "kind": "environment",
        "cluster": {"provider": "sandbox"},
        "pools": [
            *BASE["pools"][:2],
            {**BASE["pools"][2], "taints": [{"key": "example.com/lab", "value": "mig", "effect": "NoExecute"}]},
        ],
        "teams": [{**BASE["teams"][0], "name": "equal-operator", "workloads": [], **OF_TEAM}],
        "validation": BASE["validation"],
    },
    "gke": of_gke(SHARED_L4, name="equal-gke"),
    "gke-shares": shares_alone(),
}
RUNTIMES = ("nvidia", "nvidia-legacy", "plain")

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
SOURCE = {"configMapKeyRef": {"name": "x", "key": "y"}}
HARMLESS: list[Object] = [
    {"name": VARIABLE},
    *({"name": VARIABLE, "value": value} for value in ("", "void", "none")),
    {"name": "CUDA_VISIBLE_DEVICES", "value": "all"},
]
DEVICES: list[Object] = [
    *({"name": VARIABLE, "value": value} for value in ("all", "0", "GPU-5a1b", "VOID", "None", " void")),
    {"name": VARIABLE, "valueFrom": SOURCE},
]
ANNOTATIONS: list[Object] = [
    {"cdi.k8s.io/gpus": "nvidia.com/gpu=all"},
    {"nvidia.cdi.k8s.io/container.main": "nvidia.com/gpu=0"},
    {"devices.gke.io/container.main": "- path: /dev/nvidia0"},
    {"devices.gke.io/container.tcpxo-daemon": "- path: /dev/mem"},
    {"cdi.k8s.io": "none"},
    {"prometheus.io/scrape": "true"},
    {"k8s.v1.cni.cncf.io/networks": "kube-system/storage"},
    {"k8s.v1.cni.cncf.io/networks": "rail-0, rail-1@net2"},
    {"cni.projectcalico.org/ipAddrs": '["10.0.0.1"]'},
]
PINS: list[Object] = [
    {"karpenter.sh/do-not-disrupt": "true"},
    {"karpenter.sh/do-not-disrupt": "10h"},
    {"karpenter.sh/do-not-disrupt": "false"},
    {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
]
LIVES: list[Object] = [
    {"activeDeadlineSeconds": 3600},
    {"activeDeadlineSeconds": 2**31 - 1},
    {"terminationGracePeriodSeconds": 3600},
    {"terminationGracePeriodSeconds": 3601},
]
# The list contains no NFS volumes, because Pod Security refuses them before the rule `volume-source` does.
VOLUMES: list[Object] = [
    {"emptyDir": {}},
    {"csi": {"driver": "gcsfuse.csi.storage.gke.io"}},
    {"csi": {"driver": "nfs.csi.k8s.io"}},
]
LIMITS: list[Object] = [
    *({} for _ in range(6)),
    *({"nvidia.com/gpu": count} for count in ("0", "1", 2, 4, 8, "8", 9)),
    *({"nvidia.com/gpu.shared": count} for count in ("1", 2)),
    *({"nvidia.com/mig-1g.10gb": count} for count in (1, 56, 57)),
    {"nvidia.com/mig-7g.80gb": 1},
]
# A container has exclusive CPUs if its CPU limit is a whole number and equals its CPU request.
# A NUMA node of p4de.24xlarge has 48 CPUs.
AMOUNTS: list[tuple[Object, Object]] = [
    *(({"cpu": cpu}, {}) for cpu in ("900m", "1", "48", "49", "2000m", "49000m", "63500m")),
    ({"cpu": "1"}, {"cpu": "500m"}),
    ({"cpu": "1"}, {"cpu": "1000m", "memory": "1024Mi"}),
    ({"cpu": "1"}, {"memory": "1"}),
]
EFFECTS = ("", "NoSchedule", "NoExecute", "PreferNoSchedule")
KEYS = ("", "nvidia.com/gpu", "example.com/other", "example.com/lab", "node.kubernetes.io/unschedulable")


# -- objects ----------------------------------------------------------------------------------------------


def limits(gpus: Object) -> Object:
    return {"limits": {"cpu": "1", "memory": "1Gi", **gpus}}


def a_pod(containers: list[Object], annotations: Object | None = None, **spec: Any) -> Object:
    wanted = pod("here", satisfying({"containers": containers, **spec}))
    wanted["metadata"]["annotations"] = annotations or {}
    return wanted


def main(gpus: Object | None = None, **fields: Any) -> Object:
    return {"name": "main", "image": "none", "resources": limits(gpus or {}), **fields}


def random_pod(chance: random.Random) -> Object:
    spec: Object = {}
    containers = [random_container(chance, "main")]
    if chance.random() < 0.2:
        containers.append(random_container(chance, "second"))
    if chance.random() < 0.2:
        spec["initContainers"] = [random_container(chance, "first")]
    if chance.random() < 0.25:
        spec["runtimeClassName"] = chance.choice(RUNTIMES)
    if chance.random() < 0.4:
        spec["tolerations"] = [random_toleration(chance) for _ in range(chance.randint(1, 2))]
    if chance.random() < 0.15:
        spec["nodeName"] = chance.choice(("train-0", ""))
    if chance.random() < 0.1:
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    if chance.random() < 0.15:
        spec["volumes"] = [{"name": "a", **chance.choice(VOLUMES)}]
    if chance.random() < 0.3:
        spec |= chance.choice(LIVES)
    annotations = chance.choice((*ANNOTATIONS, *PINS)) if chance.random() < 0.3 else {}
    return a_pod(containers, annotations, **spec)


def random_container(chance: random.Random, name: str) -> Object:
    most, least = chance.choice(AMOUNTS)
    found: Object = {"name": name, "image": "none", "resources": limits({**chance.choice(LIMITS), **most})}
    if least:
        found["resources"]["requests"] = least
    if chance.random() < 0.3:
        found["env"] = [chance.choice(DEVICES if chance.random() < 0.2 else HARMLESS)]
    return found


def random_toleration(chance: random.Random) -> Object:
    key, effect = chance.choice(KEYS), chance.choice(EFFECTS)
    found = {"operator": "Exists", **({"key": key} if key else {}), **({"effect": effect} if effect else {})}
    if key and chance.random() < 0.3:
        found |= {"operator": "Equal", "value": chance.choice(("present", "mig", "other"))}
    return found


LABELS = {"app": "attempt"}
SELECTED = {"selector": {"matchLabels": LABELS}}
JOBS = "spec.replicatedJobs[second].template.spec.template"
# Each kind has its API version, its plural, a function that returns a spec, and the template's path in messages.
# The function takes a template that no rule refuses, for kinds with several templates, and the tested template.
HOLDERS: dict[str, tuple[str, str, Callable[[Object, Object], Object], str]] = {
    "Deployment": ("apps/v1", "deployments", lambda _, t: {**SELECTED, "template": t}, "spec.template"),
    "ReplicaSet": ("apps/v1", "replicasets", lambda _, t: {**SELECTED, "template": t}, "spec.template"),
    "StatefulSet": ("apps/v1", "statefulsets", lambda _, t: {**SELECTED, "template": t}, "spec.template"),
    "Job": ("batch/v1", "jobs", lambda _, t: {"template": t}, "spec.template"),
    "CronJob": (
        "batch/v1",
        "cronjobs",
        lambda _, t: {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": t}}},
        "spec.jobTemplate.spec.template",
    ),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets", lambda h, t: {"replicatedJobs": groups(h, t)}, JOBS),
    "TrainingRuntime": (
        "trainer.kubeflow.org/v1alpha1",
        "trainingruntimes",
        lambda h, t: {"template": {"spec": {"replicatedJobs": groups(h, t)}}},
        f"spec.template.{JOBS}",
    ),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        "leaderworkersets",
        lambda h, t: {"leaderWorkerTemplate": {"leaderTemplate": h, "workerTemplate": t}},
        "spec.leaderWorkerTemplate.workerTemplate",
    ),
    "RayCluster": ("ray.io/v1", "rayclusters", lambda h, t: ray(h, t), "spec.workerGroupSpecs[second].template"),
    "RayJob": (
        "ray.io/v1",
        "rayjobs",
        lambda h, t: {"rayClusterSpec": ray(h, h), "submitterPodTemplate": t},
        "spec.submitterPodTemplate",
    ),
    "RayService": (
        "ray.io/v1",
        "rayservices",
        lambda h, t: {"rayClusterConfig": ray(h, t)},
        "spec.rayClusterConfig.workerGroupSpecs[second].template",
    ),
    "ScaledJob": (
        "keda.sh/v1alpha1",
        "scaledjobs",
        lambda _, t: {"jobTargetRef": {"template": t}},
        "spec.jobTargetRef.template",
    ),
    "PyTorchJob": (
        "kubeflow.org/v1",
        "pytorchjobs",
        lambda h, t: {"pytorchReplicaSpecs": {"Master": {"template": h}, "Worker": {"template": t}}},
        "spec.pytorchReplicaSpecs[Worker].template",
    ),
    "MPIJob": (
        "kubeflow.org/v2beta1",
        "mpijobs",
        lambda h, t: {"mpiReplicaSpecs": {"Launcher": {"template": h}, "Worker": {"template": t}}},
        "spec.mpiReplicaSpecs[Worker].template",
    ),
}
BUILT_IN = ("apps/v1", "batch/v1")


def groups(*templates: Object) -> list[Object]:
    found = zip(("first", "second"), templates, strict=True)
    return [{"name": name, "template": {"spec": {"template": one}}} for name, one in found]


def ray(head: Object, worker: Object) -> Object:
    workers = [{"groupName": name, "template": one} for name, one in (("first", head), ("second", worker))]
    return {"headGroupSpec": {"template": head}, "workerGroupSpecs": workers}


def held(kind: str, wanted: Object) -> Object:
    """Return an object of the given kind whose pod template is taken from a pod."""
    version, _, spec, _ = HOLDERS[kind]
    policy = {"restartPolicy": "Never"} if version == "batch/v1" else {}
    annotations = wanted["metadata"].get("annotations", {})
    harmless, last = (
        {"metadata": {"labels": LABELS, "annotations": found}, "spec": {**one, **policy}}
        for one, found in ((a_pod([main()])["spec"], {}), (wanted["spec"], annotations))
    )
    if version == "apps/v1":  # templates of Deployments and other kinds of `apps` must not have a deadline
        last["spec"].pop("activeDeadlineSeconds", None)
    metadata = {"name": "attempt", "namespace": "here"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec(harmless, last)}


def random_debugger(chance: random.Random) -> Object:
    found: Object = {"name": "debug", "image": "none", "securityContext": dict(CONTAINER)}
    if chance.random() < 0.8:
        found["env"] = [chance.choice(DEVICES if chance.random() < 0.5 else HARMLESS)]
    return found


def random_service(chance: random.Random) -> Object:
    spec: Object = {"ports": [{"port": 80}]}
    if chance.random() < 0.7:
        spec["externalIPs"] = ["203.0.113.7", "10.0.0.10"][: chance.randint(0, 2)]
    if chance.random() < 0.4:
        spec |= {
            "type": chance.choice(("ClusterIP", "ExternalName", "ExternalName")),
            "externalName": "a.example.com",
        }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "attempt", "namespace": "here"},
        "spec": spec,
    }


def random_claim(chance: random.Random) -> Object:
    devices = {
        "requests": [random_request(chance, f"r{index}") for index in range(chance.choice((0, 1, 1, 1, 2, 2, 2)))]
    }
    kind = chance.choice(("ResourceClaim", "ResourceClaimTemplate"))
    spec = {"devices": devices} if kind == "ResourceClaim" else {"spec": {"devices": devices}}
    metadata = {"name": "attempt", "namespace": "here"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def random_request(chance: random.Random, name: str) -> Object:
    def one() -> Object:
        device_class = chance.choice(("gpu.nvidia.com", "gpu.nvidia.com", "mig.nvidia.com", "nics.example.com"))
        counted = {"count": chance.choice((1, 2, 4, 8, 9, 16))} if chance.random() < 0.8 else {}
        tolerated = {"tolerations": [{"operator": "Exists"}]} if chance.random() < 0.1 else {}
        return {"deviceClassName": device_class, **counted, **tolerated}

    if chance.random() < 0.3:
        return {"name": name, "firstAvailable": [{"name": f"{name}-{i}", **one()} for i in range(2)]}
    admin = {"adminAccess": chance.choice((True, False))} if chance.random() < 0.3 else {}
    return {"name": name, "exactly": {**one(), **admin}}


HOSTS = (
    "a.example.com",
    "c.b.example.com",
    "*.b.example.com",
    "b.example.com",
    "*.example.com",
    "x-b.example.com",
)
ROUTE_ANNOTATIONS = (
    "alb.ingress.kubernetes.io/group.name",
    "alb.ingress.kubernetes.io/target-type",
    "external-dns.alpha.kubernetes.io/hostname",
    "tailscale.com/expose",
    "example.com/owner",
)


def random_route(chance: random.Random) -> Object:
    kind, version = chance.choice(
        (
            ("Ingress", "networking.k8s.io/v1"),
            ("HTTPRoute", "gateway.networking.k8s.io/v1"),
            ("GRPCRoute", "gateway.networking.k8s.io/v1"),
        )
    )
    hosts = [chance.choice(HOSTS[: chance.choice((3, 6))]) for _ in range(chance.randint(0, 2))]
    backend = {"service": {"name": "a", "port": {"number": 80}}}
    spec: Object = {"hostnames": hosts}
    if kind == "Ingress":
        paths = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
        spec = {"rules": [*({"host": one, **paths} for one in hosts), *([] if hosts else [paths])]}
        if chance.random() < 0.1:
            spec["defaultBackend"] = backend
        if chance.random() < 0.2:
            spec["tls"] = [{"hosts": [chance.choice(HOSTS)], "secretName": "a"}]
    annotations = {chance.choice(ROUTE_ANNOTATIONS): "a"} if chance.random() < 0.6 else {}
    metadata = {"name": "attempt", "namespace": "here", "annotations": annotations}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


SERVERS = (
    PROMETHEUS,
    f"{PROMETHEUS}/api",
    f"{PROMETHEUS}@10.0.0.1",
    "http://metrics.obs.svc:80/a",
    "http://10.0.0.1",
)
KINDS_OF_TRIGGERS = ("cpu", "cron", "prometheus", "metrics-api", "aws-sqs-queue", "redis", "external")
CREDENTIALS = ("secretTargetRef", "env", "podIdentity", "hashiCorpVault", "gcpSecretManager")


def random_scaler(chance: random.Random) -> Object:
    kind = chance.choice(("ScaledObject", "ScaledJob", "TriggerAuthentication"))
    if kind == "TriggerAuthentication":
        spec: Object = {key: {} for key in chance.sample(CREDENTIALS, chance.randint(1, 2))}
    else:
        spec = {"triggers": [random_trigger(chance) for _ in range(chance.randint(1, 2))]}
    metadata = {"name": "attempt", "namespace": "here"}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def random_trigger(chance: random.Random) -> Object:
    metadata = {chance.choice(("serverAddress", "url")): chance.choice(SERVERS)} if chance.random() < 0.9 else {}
    kinds = ("TriggerAuthentication", "ClusterTriggerAuthentication")
    reference = {"name": "a", "kind": chance.choice(kinds)} if chance.random() < 0.3 else {"name": "a"}
    return {
        "type": chance.choice(KINDS_OF_TRIGGERS),
        "metadata": metadata,
        **({"authenticationRef": reference} if chance.random() < 0.7 else {}),
    }


# -- the pack and the API server --------------------------------------------------------------------------


@dataclass
class Place:
    """A team's namespace on the API server, and the resources of its stack that the policy pack evaluates."""

    client: KubernetesClient
    namespace: str
    records: Sequence[Mapping[str, Any]]
    order: tuple[str, ...]
    settings: Mapping[str, Any]

    def moved(self, wanted: Object) -> Object:
        return {**wanted, "metadata": {**wanted["metadata"], "namespace": self.namespace}}

    def at_admission(self, wanted: Object) -> str:
        return self._named(refusal(self.client, self.moved(wanted)))

    def of_debugger(self, container: Object) -> str:
        """Return the verdict on an ephemeral container in a running pod."""
        try:
            debug(self.client, self.namespace, "debugged", container, dry_run=True)
        except Refused as refused:
            return self._named(refused.message)
        return NO_RULE

    def _named(self, text: str) -> str:
        found = [rule for rule in (*self.order, *OF_OBJECTS) if f"{rule}:" in text]
        # The API server's message names one rule or a quota, or is empty.
        assert len(found) == 1 or not text or "exceeded quota" in text, text
        return found[0] if found else NO_RULE

    def before_a_deploy(self, objects: Sequence[Object], *rules: str) -> list[set[str]]:
        """Return, for each object, the rules that the pack reports as violated."""
        wanted = [self._record(index, self.moved(one)) for index, one in enumerate(objects)]
        config: Object = {
            "all": "disabled",
            **dict.fromkeys(rules or (*OF_ALIGNED_PODS, *OF_OBJECTS), "mandatory"),
        }
        for rule in (SERVER, ROUTE_HOST, ROUTE_ANNOTATION):
            if rule in config:  # the team's settings, as the program passes them to the pack
                config[rule] = {**self.settings[rule], "enforcementLevel": "mandatory"}
        report = evaluate([*self.records, *wanted], config, datetime.date(2026, 11, 21))
        assert not report.not_checked, report.not_checked
        return [{one.rule for one in report.violations if one.resource == each["urn"]} for each in wanted]

    def first(self, broken: set[str]) -> str:
        """Return the violated rule that comes first in the policies. The API server names only this rule."""
        return next((rule for rule in (*self.order, *OF_OBJECTS) if rule in broken), NO_RULE)

    def _record(self, index: int, wanted: Object) -> Object:
        version = wanted["apiVersion"] if "/" in wanted["apiVersion"] else f"core/{wanted['apiVersion']}"
        kind = f"kubernetes:{version}:{wanted['kind']}"
        return {"urn": f"urn:pulumi:a::b::{kind}::{index}", "type": kind, "name": f"{index}", "inputs": wanted}


@pytest.fixture(scope="module")
def client(start_sandbox: Callable[..., control_plane.Status]) -> Iterator[KubernetesClient]:
    client = KubernetesClient(start_sandbox().kubeconfig)
    wanted = [runtime_class(name) for name in RUNTIMES]
    held = [(kind, version, plural) for kind, (version, plural, *_) in HOLDERS.items() if version not in BUILT_IN]
    wanted += [
        permissive(version, kind, plural) for kind, version, plural in held if version != "keda.sh/v1alpha1"
    ]
    wanted += (*KEDA, *ROUTES, TRAIN_JOBS)
    made = [one for one in wanted if client.get(*identity(one)) is None]
    for one in made:
        client.create(one)
    yield client
    remove(client, [platform["teams"][0]["name"] for platform in PLATFORMS.values()])
    for one in made:
        live = client.get(*identity(one))
        assert live is not None
        client.delete(live)
    # The next test file must not find CRDs that are still being deleted.
    eventually(lambda: all(client.get(*identity(one)) is None for one in made))


@pytest.fixture(scope="module", params=PLATFORMS)
def place(client: KubernetesClient, request: pytest.FixtureRequest) -> Place:
    return place_of(client, PLATFORMS[request.param])


def place_of(client: KubernetesClient, platform: Object) -> Place:
    namespace = apply_team(client, platform)
    # Without this label on the namespace, the API server itself refuses claims with adminAccess.
    # The rule of the program refuses such claims even if the label is set.
    label = {"resource.kubernetes.io/admin-access": "true"}
    client.merge({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": label}})
    if client.get("v1", "Pod", "debugged", namespace) is None:
        client.create(pod(namespace, honest()) | {"metadata": {"name": "debugged", "namespace": namespace}})
    policy = client.get(ADMISSION, "ValidatingAdmissionPolicy", f"pods-of-{namespace}")
    assert policy is not None
    order = tuple(dict.fromkeys(one["message"].partition(":")[0] for one in policy["spec"]["validations"]))
    loaded = LoadedStack("test", Path("/nowhere/Pulumi.test.yaml"), platform, plan_platform(platform, "test"))
    records = [one.to_json() for one in record_stack(loaded).resources]
    found = Place(client, namespace, records, order, loaded.plan.policy.config)
    for kind, (version, *_) in HOLDERS.items():
        eventually(lambda version=version, kind=kind: client.find_resource(version, kind) is not None)
    for one in ROUTES:
        kind = one["spec"]["names"]["kind"]
        eventually(lambda kind=kind: client.find_resource("gateway.networking.k8s.io/v1", kind) is not None)
    eventually(lambda: not uncounted(client, namespace))
    for name in RUNTIMES:
        plain = found.moved(a_pod([main()], runtimeClassName=name))
        eventually(lambda wanted=plain: "not found" not in refusal(client, wanted))
    service = random_service(random.Random(0)) | {"spec": {"ports": [{"port": 80}], "externalIPs": ["10.0.0.1"]}}
    admin = {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}}
    claim = random_claim(random.Random(0)) | {"kind": "ResourceClaim", "spec": {"devices": {"requests": [admin]}}}
    eventually(lambda: found.at_admission(service) == ADDRESS)
    identity_of_keda = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "spec": {"podIdentity": {}},
    }
    eventually(lambda: found.at_admission({**claim, **identity_of_keda}) == IDENTITY)
    eventually(lambda: "not have permission" not in refusal(client, found.moved(claim)))
    eventually(lambda: found.at_admission(claim) == CLAIM)
    return found


def runtime_class(name: str) -> Object:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}


def identity(one: Object) -> tuple[str, str, str]:
    return one["apiVersion"], one["kind"], one["metadata"]["name"]


# -- equal verdicts ---------------------------------------------------------------------------------------


def test_the_rules_for_pods_agree_with_the_pack(place: Place):
    aligns = place.namespace != "equal-shares"
    assert set(place.order) - {OUTSIDE_POOLS} == (OF_ALIGNED_PODS if aligns else OF_PODS)


def test_nodes_outside_of_the_pools_are_refused_only_at_admission(place: Place):
    wanted = a_pod([main()], nodeSelector={"cloud.google.com/compute-class": "autopilot"})
    assert verdicts(place, wanted) == (set(), OUTSIDE_POOLS)


def test_the_policy_pack_and_admission_refuse_the_same_objects_by_the_same_rules(place: Place):
    chance = random.Random(f"20261123 {place.namespace}")
    objects = [
        *(random_pod(chance) for _ in range(size(170, 1300))),
        *(random_service(chance) for _ in range(size(30, 200))),
        *(random_claim(chance) for _ in range(size(26, 300))),
        *(random_scaler(chance) for _ in range(size(40, 300))),
        *(random_route(chance) for _ in range(size(40, 300))),
    ]
    debuggers = [random_debugger(chance) for _ in range(size(15, 200))]
    found = [*map(place.at_admission, objects), *map(place.of_debugger, debuggers)]
    with_debuggers = [a_pod([main()], ephemeralContainers=[one]) for one in debuggers]
    expected = [place.first(broken) for broken in place.before_a_deploy([*objects, *with_debuggers])]
    differ = [
        (pack, admission, one.get("metadata", {}).get("annotations"), one.get("spec"))
        for one, pack, admission in zip([*objects, *with_debuggers], expected, found, strict=True)
        if pack != admission
    ]
    assert not differ, f"{len(differ)} differ, the first: {differ[:3]}"
    counts = Counter(found)
    # On GKE, GPU shares have no separate resource name, so most random requests for shares name unknown resources.
    # If shares use the resource name of whole GPUs, pods may run on nodes without alignment.
    of_pods = OF_ALIGNED_PODS if place.namespace == "equal-operator" else OF_PODS
    assert all(counts[verdict] >= 2 for verdict in (*of_pods, *OF_OBJECTS, NO_RULE)), counts
    assert counts[NO_RULE] > len(found) * 0.15


def test_pod_templates_are_refused_by_the_rules_of_their_pods_in_every_kind(place: Place):
    chance = random.Random(f"20261125 {place.namespace}")
    objects = [held(kind, random_pod(chance)) for kind in HOLDERS for _ in range(size(6, 60))]
    texts = [refusal(place.client, place.moved(one)) for one in objects]
    expected = [place.first(broken) for broken in place.before_a_deploy(objects)]
    found = [place._named(text) for text in texts]
    differ = [one for one in zip(objects, expected, found, strict=True) if one[1] != one[2]]
    assert not differ, f"{len(differ)} differ, the first: {differ[:2]}"
    assert not [
        (one["kind"], text)
        for one, text in zip(objects, texts, strict=True)
        if text and f": {HOLDERS[one['kind']][3]}: " not in text
    ]
    assert {NO_RULE} < set(found)


def a_train_job(env: list[Object], patched: list[Object]) -> Object:
    """Return a TrainJob with environment variables for its nodes, and pod template patches for its runtime."""
    jobs = [{"name": f"{index}", "template": {"spec": {"template": one}}} for index, one in enumerate(patched)]
    patches = [
        {"manager": "example.com/a"},
        {"manager": "example.com/b", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}},
    ]
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "attempt", "namespace": "here"},
        "spec": {"trainer": {"env": env}, "runtimePatches": patches},
    }


def random_patch(chance: random.Random) -> Object:
    containers = [{"name": "node", "env": [chance.choice(DEVICES if chance.random() < 0.3 else HARMLESS)]}]
    volumes = [{"name": "a", **chance.choice((*VOLUMES, {"nfs": {"server": "10.0.0.1", "path": "/"}}))}]
    kind = chance.choice(("containers", "initContainers"))
    spec = {kind: containers, "volumes": volumes, "tolerations": [random_toleration(chance)]}
    annotations = chance.choice(ANNOTATIONS) if chance.random() < 0.4 else {}
    return chance.choice(({"spec": spec}, {"metadata": {"annotations": annotations}}, {"spec": {}}))


@pytest.mark.parametrize("place", ["operator"], indirect=True)
def test_what_train_jobs_add_to_their_runtimes_is_refused_by_the_rules_of_pods(place: Place):
    chance = random.Random("20261125 patches")
    objects = [
        a_train_job(
            [chance.choice(DEVICES if chance.random() < 0.2 else HARMLESS)],
            [random_patch(chance) for _ in range(chance.randint(0, 2))],
        )
        for _ in range(size(60, 300))
    ]
    # Patches contain neither GPU requests nor maximum run times, so the rules check these fields on the pods.
    expected = [place.first(broken) for broken in place.before_a_deploy(objects)]
    found = [place.at_admission(one) for one in objects]
    differ = [one for one in zip(objects, expected, found, strict=True) if one[1] != one[2]]
    assert not differ, f"{len(differ)} differ, the first: {differ[:2]}"
    assert set(found) == {BYPASS, ANNOTATION, NETWORK, VOLUME, NO_RULE}


# -- intentional differences ------------------------------------------------------------------------------

operator = pytest.mark.parametrize("place", ["operator"], indirect=True)
gke = pytest.mark.parametrize("place", ["gke"], indirect=True)
PUBLISHED = next(one for one in fabric_pods() if one.machine_type == "a3-megagpu-8g" and one.devices)


def verdicts(place: Place, wanted: Object, *rules: str) -> tuple[set[str], str]:
    (broken,) = place.before_a_deploy([wanted], *rules)
    return broken, place.at_admission(wanted)


@operator
def test_only_the_pack_counts_against_the_pools_that_a_pod_selects(place: Place):
    wanted = a_pod([main({"nvidia.com/gpu": 4})], nodeSelector={"gpu-platform.dev/pool": "serve"})
    assert verdicts(place, wanted) == ({MOST}, NO_RULE)
    wanted["spec"]["nodeSelector"] = {"gpu-platform.dev/pool": "train"}
    assert verdicts(place, wanted) == (set(), NO_RULE)


@operator
def test_both_evaluate_the_cpus_of_gpus_by_the_pools_that_a_pod_selects(place: Place):
    for pool, expected in (("train", ALIGNMENT), ("serve", NO_RULE), ("elsewhere", NO_RULE)):
        selector = {"gpu-platform.dev/pool": pool}
        wanted = a_pod([main({"nvidia.com/gpu": 8})], nodeSelector=selector)
        assert verdicts(place, wanted, ALIGNMENT) == ({expected} - {NO_RULE}, expected)


@operator
def test_cpus_of_a_pod_that_is_not_guaranteed_are_no_matter_of_numa_nodes(place: Place):
    eight = main({"nvidia.com/gpu": 8})
    less = {"name": "second", "image": "none", "resources": {**limits({}), "requests": {"cpu": "1m"}}}
    assert verdicts(place, a_pod([eight]))[1] == ALIGNMENT
    assert verdicts(place, a_pod([eight], initContainers=[less])) == (set(), NO_RULE)
    assert verdicts(place, a_pod([eight], resources={"limits": {"cpu": "8", "memory": "8Gi"}})) == (set(), NO_RULE)


@operator
def test_both_ignore_nvidia_resources_that_are_not_gpus(place: Place):
    assert verdicts(place, a_pod([main({"nvidia.com/hostdev": 1})])) == (set(), NO_RULE)


def of_aks(**team: Any) -> Object:
    """Return a stack on AKS with a pool of eight-GPU H100 nodes with InfiniBand."""
    declared = {"name": "train", "machine_type": "Standard_ND96isr_H100_v5", "count": {"desired": 2}}
    one = {
        "quota": {"gpus": 8},
        "priority": "training",
        "members": [f"group:{ID}"],
        **team,
    }
    return {
        "kind": "environment",
        "cluster": EXISTING,
        "pools": [{**declared, "workload": "training"}],
        "teams": [one],
    }


@pytest.mark.parametrize(
    ("platform", "nics", "all_nics"),
    [
        (platform_of("eks", "p5.48xlarge", None, {"name": "equal-eks", **OF_TEAM}), "vpc.amazonaws.com/efa", 32),
        (of_aks(name="equal-aks", **OF_TEAM), "rdma/ib", 8),
    ],
    ids=["eks", "aks"],
)
def test_only_admission_counts_nics(client: KubernetesClient, platform: Object, nics: str, all_nics: int):
    place = place_of(client, platform)
    half = all_nics // 2
    cases = (
        (8, all_nics, NO_RULE),
        (8, all_nics + 1, MOST),
        (4, half, NO_RULE),
        (4, half + 1, "nic-share"),
        (1, all_nics, "nic-share"),
    )
    try:
        for gpus, requested, verdict in cases:
            limits = {"nvidia.com/gpu": gpus, nics: requested, "cpu": "900m"}
            wanted = a_pod(
                [main(limits, image="none:1")], tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]
            )
            assert verdicts(place, wanted) == (set(), verdict)
    finally:
        remove(client, [place.namespace])


@operator
def test_requests_without_limits_are_invalid_and_break_a_separate_rule(place: Place):
    wanted = a_pod([{"name": "main", "image": "none", "resources": {"requests": {"nvidia.com/gpu": 1}}}])
    assert place.before_a_deploy([wanted], *OF_PODS, EQUAL) == [{EQUAL}]
    assert "Limit must be set for non overcommitable resources" in refusal(place.client, place.moved(wanted))


@operator
def test_neither_evaluates_the_namespaces_of_the_system(place: Place):
    wanted = a_pod([main(env=[DEVICES[0]])], {"cdi.k8s.io/gpus": "all"}, tolerations=[{"operator": "Exists"}])
    assert verdicts(place, wanted) == ({BYPASS, ANNOTATION, TOLERATION}, BYPASS)
    system = Place(place.client, "kube-system", place.records, place.order, place.settings)
    assert verdicts(system, wanted) == (set(), NO_RULE)


@operator
def test_daemon_sets_that_tolerate_all_taints_are_refused_at_admission(place: Place):
    wanted = a_pod([main()], tolerations=[{"operator": "Exists"}])
    assert verdicts(place, wanted) == ({TOLERATION}, TOLERATION)
    labels = {"app": "exporter"}
    template = {"metadata": {"labels": labels}, "spec": wanted["spec"]}
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "exporter", "namespace": "here"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    assert place.before_a_deploy([daemons]) == [set()]


REACHING: list[tuple[Object, Object]] = [
    ({"hostNetwork": True}, {}),
    ({"hostPID": True}, {}),
    ({"hostIPC": True}, {}),
    ({"volumes": [{"name": "host", "hostPath": {"path": "/var/lib"}}]}, {}),
    ({}, {"securityContext": {"privileged": True, "allowPrivilegeEscalation": True}}),
    ({}, {"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}}),
]


@pytest.mark.parametrize("place", ["operator", "gke"], indirect=True)
@pytest.mark.parametrize(("of_pod", "of_container"), REACHING, ids=lambda one: "-".join(one) or "all")
def test_pod_security_refuses_all_that_the_pack_finds_to_reach_the_node_and_more(
    place: Place, of_pod: Object, of_container: Object
):
    for gpus, rules in (({"nvidia.com/gpu": 8, "cpu": "900m"}, {HOST}), ({}, set())):
        wanted = a_pod([main(gpus, **of_container)])
        wanted["spec"] = satisfying({**wanted["spec"], **of_pod})
        assert place.before_a_deploy([wanted], HOST) == [rules]
        text = refusal(place.client, place.moved(wanted))
        assert "PodSecurity" in text or "pod-security-" in text


def daemons_devices() -> Object:
    annotations = PUBLISHED.published("here")["metadata"]["annotations"]
    return {key: value for key, value in annotations.items() if key.startswith("devices.gke.io/")}


@gke
def test_only_the_pack_requires_whole_nodes_for_a_daemons_devices(
    place: Place,
):
    eight, four = (a_pod([main({"nvidia.com/gpu": count, "cpu": "900m"})], daemons_devices()) for count in (8, 4))
    assert verdicts(place, eight) == (set(), NO_RULE)
    # The annotation grants devices only to a container with the name of the fabric's daemon.
    # A container with the name of the fabric's daemon must be the real daemon.
    assert verdicts(place, four) == ({ANNOTATION}, NO_RULE)
    four["spec"]["containers"][0]["name"] = PUBLISHED.devices
    assert "fabric-daemon:" in refusal(place.client, place.moved(four))


def test_only_teams_with_a_whole_node_get_a_daemons_devices(client: KubernetesClient):
    place = place_of(client, of_gke(name="equal-few", quota={"gpus": 4}))
    try:
        wanted = a_pod([main({"nvidia.com/gpu": 8, "cpu": "900m"})], daemons_devices())
        assert verdicts(place, wanted) == (set(), ANNOTATION)
    finally:
        remove(client, ["equal-few"])


# -- existing objects ----------------------------------------------------------------------------------------


def create_without(client: KubernetesClient, policy: str, forbidden: dict[str, Any]) -> None:
    """Create an object that a policy forbids, while the policy has no binding."""
    binding = client.get(ADMISSION, "ValidatingAdmissionPolicyBinding", policy)
    assert binding is not None
    client.delete(binding)
    try:
        eventually(lambda: refusal(client, forbidden) == "")
        client.create(forbidden)
    finally:
        client.apply({**binding, "metadata": {key: binding["metadata"][key] for key in ("name", "labels")}})


@operator
def test_pods_older_than_a_rule_can_change_only_unrestricted_fields(place: Place):
    client, name = place.client, f"pods-of-{place.namespace}"
    forbidden = place.moved(a_pod([main()], tolerations=[{"operator": "Exists"}]))
    forbidden["metadata"] |= {"name": "older", "finalizers": ["example.com/tracked"]}
    create_without(client, name, forbidden)
    eventually(lambda: TOLERATION in refusal(client, forbidden))
    older = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "older", "namespace": place.namespace}}
    try:
        with pytest.raises(Refused, match=TOLERATION):
            client.merge({**older, "spec": {"activeDeadlineSeconds": 60}})
        with pytest.raises(Refused, match=ANNOTATION):
            client.merge({**older, "metadata": {**older["metadata"], "annotations": {"cdi.k8s.io/gpus": "all"}}})
    finally:
        # The Job controller also removes the finalizer of a pod that has ended.
        client.merge({**older, "metadata": {**older["metadata"], "finalizers": None}})
        live = client.get("v1", "Pod", "older", place.namespace)
        assert live is not None
        client.delete(live)


@operator
def test_templates_older_than_a_rule_can_be_scaled_but_not_changed(place: Place):
    client, name = place.client, f"templates-of-{place.namespace}"
    forbidden = place.moved(held("Deployment", a_pod([main()], tolerations=[{"operator": "Exists"}])))
    forbidden["spec"]["replicas"] = 0
    older = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": forbidden["metadata"]}
    create_without(client, name, forbidden)
    eventually(
        lambda: TOLERATION in refusal(client, {**forbidden, "metadata": {**older["metadata"], "name": "b"}})
    )
    try:
        client.merge({**older, "metadata": {**older["metadata"], "labels": {"a": "b"}}, "spec": {"paused": True}})
        with pytest.raises(Refused, match=TOLERATION):
            client.merge({**older, "spec": {"template": {"spec": {"priorityClassName": "training"}}}})
    finally:
        live = client.get("apps/v1", "Deployment", "attempt", place.namespace)
        assert live is not None
        client.delete(live)


# -- priority classes ---------------------------------------------------------------------------------------


def test_a_class_above_the_teams_own_is_refused_in_the_templates_of_every_kind(client: KubernetesClient):
    team = {**PLATFORMS["operator"]["teams"][0], "name": "equal-queue"}
    platform = {**PLATFORMS["operator"], "queueing": {}, "teams": [team]}
    place = place_of(client, platform)
    rules = [one["inputs"] for one in place.records if one["name"] == f"queue-of-{place.namespace}"]
    for one in rules:
        client.apply(one)
    try:
        for kind in HOLDERS:
            for name, refused in (("inference", True), ("training", False)):
                wanted = place.moved(held(kind, a_pod([main()], priorityClassName=name)))
                eventually(
                    lambda wanted=wanted, refused=refused: (
                        ("queue-priority-class" in refusal(client, wanted)) == refused
                    )
                )
    finally:
        for one in reversed(rules):
            live = client.get(*identity(one))
            assert live is not None
            client.delete(live)
        remove(client, [place.namespace])
