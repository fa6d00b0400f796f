"""Jobs on several nodes with GPU NICs, compared with the test pods that Google publishes for them."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.guide.manifests import manifests
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from policies import evaluate
from tests.support.fabric_jobs import MACHINES, Machine, job_pods, platform_with_jobs, recorded
from tests.support.fabric_pods import fabric_pods

Object = dict[str, Any]
PUBLISHED = {one.name: one for one in fabric_pods()}
# The number of the first GPU network interface in Google's manifests, for each kind of fabric.
FIRST = {"TCPX": 1, "TCPXO": 1, "RDMA of A3 Ultra": 2, "RDMA of A4": 2, "RDMA of A4X": 2}
MEGA = MACHINES[1]
with_machines = pytest.mark.parametrize("machine", MACHINES, ids=lambda one: one.published.replace(" ", "-"))


def published(machine: Machine) -> Object:
    return PUBLISHED[machine.published].published("vision")


def containers(pod: Object) -> dict[str, Object]:
    spec = pod["spec"]
    return {one["name"]: one for one in (*spec.get("initContainers", ()), *spec["containers"])}


def host_paths(pod: Object, container: Object) -> dict[str, str]:
    """Return the host paths that a container mounts, by mount path."""
    volumes = {one["name"]: one.get("hostPath", {}).get("path") for one in pod["spec"]["volumes"]}
    return {
        mount["mountPath"]: path
        for mount in container["volumeMounts"]
        if (path := volumes[mount["name"]]) is not None
    }


@with_machines
def test_pods_of_jobs_join_the_networks_of_the_published_pod(machine: Machine) -> None:
    wanted = PUBLISHED[machine.published].networks
    for pod in job_pods(platform_with_jobs(machine)).values():
        annotations = pod["metadata"].get("annotations", {})
        if not wanted:
            assert not [name for name in annotations if name.startswith("networking.gke.io/")]
            assert pod["spec"]["resourceClaims"]
            continue
        first, *joined = json.loads(annotations["networking.gke.io/interfaces"])
        assert first == {"interfaceName": "eth0", "network": "default"}
        assert annotations["networking.gke.io/default-interface"] == "eth0"
        assert joined == [
            {"interfaceName": f"eth{FIRST[machine.published] + index}", "network": name}
            for index, name in enumerate(wanted)
        ]


@with_machines
def test_the_daemon_of_a_job_is_the_published_one_as_a_sidecar(machine: Machine) -> None:
    example = published(machine)
    devices = {key: value for key, value in example["metadata"]["annotations"].items() if "devices" in key}
    for pod in job_pods(platform_with_jobs(machine)).values():
        own = {key: value for key, value in pod["metadata"].get("annotations", {}).items() if "devices" in key}
        assert own == devices
        sidecars = pod["spec"].get("initContainers", [])
        assert [one["name"] for one in sidecars] == [name for name in containers(example) if "daemon" in name]
        for sidecar in sidecars:
            # Without this policy, the pods of a Job never end.
            assert sidecar["restartPolicy"] == "Always"
            theirs = containers(example)[sidecar["name"]]
            for field in ("image", "command", "env"):
                assert sidecar[field] == theirs[field], field
            added = sidecar["securityContext"]["capabilities"]["add"]
            assert added == theirs["securityContext"]["capabilities"]["add"]
            ours, expected = host_paths(pod, sidecar), host_paths(example, theirs)
            # With TCPX, the socket folder is a volume of the pod, not a host path.
            expected.pop("/run/tcpx", None)
            assert ours == expected


@with_machines
def test_the_container_of_a_job_has_the_libraries_of_the_published_one_read_only(machine: Machine) -> None:
    example = published(machine)
    theirs = containers(example)["test" if "test" in containers(example) else "nccl-test"]
    expected = set(host_paths(example, theirs).values()) - {"/run/tcpx"}
    if machine.published == "RDMA of A4X":
        expected.add("/home/kubernetes/bin/gib")  # only the image that Google publishes contains the NCCL plugin
    for kind, pod in job_pods(platform_with_jobs(machine)).items():
        main = pod["spec"]["containers"][0]
        assert set(host_paths(pod, main).values()) == expected, kind
        libraries = {one["name"] for one in pod["spec"]["volumes"] if "/home/" in str(one.get("hostPath"))}
        mounts = [one for one in main["volumeMounts"] if one["name"] in libraries]
        assert mounts
        assert all(one["readOnly"] for one in mounts)


def test_sockets_of_tcpx_are_in_a_folder_that_daemon_and_job_share() -> None:
    for pod in job_pods(platform_with_jobs(MACHINES[0])).values():
        folders = [one["name"] for one in pod["spec"]["volumes"] if one.get("emptyDir") == {}]
        (socket,) = [name for name in folders if name != "scratch"]  # the folder `scratch` is not for sockets
        mounted = {
            name: [one["mountPath"] for one in container["volumeMounts"] if one["name"] == socket]
            for name, container in containers(pod).items()
        }
        assert set(map(tuple, mounted.values())) == {("/run/tcpx",)}


@with_machines
def test_jobs_on_several_nodes_violate_no_rule_of_the_policy_pack(machine: Machine) -> None:
    found = recorded(platform_with_jobs(machine)).resources
    report = evaluate([one.to_json() for one in found], {}, datetime.date(2026, 11, 24))
    own = [one for one in report.violations if "vision" in one.resource and "policy" not in one.rule]
    assert [f"{one.rule}: {one}" for one in own] == []


def test_the_guide_s_training_on_several_nodes_is_as_complete_as_a_declared_job() -> None:
    platform = platform_with_jobs(MEGA)
    for entries in ("training_jobs", "inference_services", "ray_clusters"):
        del platform["teams"][0][entries]
    plan = plan_platform(platform, "test")
    assert isinstance(plan, EnvironmentPlan)
    objects = manifests(plan.guides[0], plan.teams[0], None)["training"]
    (job,) = [one for one in objects if one["kind"] == "Job"]
    declared = job_pods(platform_with_jobs(MEGA))["training"]
    template = job["spec"]["template"]
    assert template["spec"]["initContainers"] == declared["spec"]["initContainers"]
    assert [one for one in template["spec"]["volumes"] if "hostPath" in one] == [
        one for one in declared["spec"]["volumes"] if "hostPath" in one
    ]
    assert template["spec"]["containers"][0]["command"][:2] == ["/bin/bash", "-c"]
    theirs = {key for key in declared["metadata"]["annotations"] if "gke.io" in key}
    assert theirs <= set(template["metadata"]["annotations"])


@with_machines
def test_main_container_and_sidecar_request_what_the_pod_declares(machine: Machine) -> None:
    platform = platform_with_jobs(machine)
    for one in (*platform["teams"][0]["training_jobs"], *platform["teams"][0]["inference_services"]):
        one |= {"cpu": "120", "memory": "400Gi"}  # these CPUs are on both NUMA nodes, like the GPUs
    pods = job_pods(platform)
    for kind in ("training", "inference"):
        requests = [one["resources"]["requests"] for one in containers(pods[kind]).values()]
        assert sum(parse_quantity(one["cpu"]) for one in requests) == 120
        assert sum(parse_quantity(one["memory"]) for one in requests) == parse_quantity("400Gi")


@pytest.mark.parametrize("few", [{"gpus": 1}, {"nodes": 1}], ids=["part-of-a-node", "one-node"])
def test_pods_that_communicate_within_a_node_have_nothing_of_the_fabric(few: Mapping[str, int]) -> None:
    for kind, pod in job_pods(platform_with_jobs(MEGA, **few)).items():
        assert "initContainers" not in pod["spec"], kind
        assert not [one for one in pod["spec"]["volumes"] if "hostPath" in one]
        assert not [name for name in pod["metadata"].get("annotations", {}) if "gke.io" in name]


def test_jobs_on_racks_share_gpu_memory_over_nvlink() -> None:
    platform = platform_with_jobs(MACHINES[-1])
    domains = {
        one.inputs["metadata"]["name"]: one.inputs["spec"]["channel"]["resourceClaimTemplate"]["name"]
        for one in recorded(platform).resources
        if one.inputs.get("kind") == "ComputeDomain"
    }
    assert sorted(domains) == ["large", "pretrain", "ray-gpu"]
    for pod in job_pods(platform).values():
        (claim,) = pod["spec"]["resourceClaims"]
        assert claim["resourceClaimTemplateName"] in domains.values()
        assert {"name": claim["name"]} in pod["spec"]["containers"][0]["resources"]["claims"]


def test_jobs_on_racks_whose_owner_installs_no_dra_driver_have_no_compute_domain() -> None:
    platform = {**platform_with_jobs(MACHINES[-1]), "operator": {"compute_domains": False}}
    assert not [one for one in recorded(platform).resources if one.inputs.get("kind") == "ComputeDomain"]
    for pod in job_pods(platform).values():
        assert "resourceClaims" not in pod["spec"]


def started(pod: Object, profile: Path, program: list[str]) -> dict[str, str]:
    """Return the environment variables of the program that the container's command starts.

    The command `env` runs instead of the program. The script `profile` is read instead of the node's script.
    """
    container = pod["spec"]["containers"][0]
    command = [*container["command"]]
    command[-len(program) :] = ["env"]
    env = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    found = [str(profile) if one.endswith(".sh") else one for one in command]
    done = subprocess.run(
        found,
        env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/image", **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


@with_machines
def test_a_jobs_own_settings_override_those_of_the_node(machine: Machine, tmp_path: Path) -> None:
    profile = tmp_path / "profile.sh"
    profile.write_text("export NCCL_DEBUG=WARN NCCL_FROM_NODE=1\n")
    pods = job_pods(platform_with_jobs(machine))
    seen = started(pods["training"], profile, ["torchrun", "train.py"])
    assert seen["NCCL_DEBUG"] == "INFO"
    assert seen["LD_LIBRARY_PATH"].split(":")[-1] == "/image"
    assert "/usr/local/nvidia/lib64" in seen["LD_LIBRARY_PATH"].split(":")
    if machine.published == "TCPX":
        assert seen["NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"] == "/run/tcpx"
    else:
        assert seen["NCCL_FROM_NODE"] == "1"


def test_shells_of_ray_read_the_settings_of_the_node() -> None:
    for machine in MACHINES[1:]:
        main = job_pods(platform_with_jobs(machine))["ray"]["spec"]["containers"][0]
        env = {one["name"]: one["value"] for one in main["env"]}
        assert "command" not in main
        assert env["BASH_ENV"].startswith("/usr/local/")
        assert "/usr/local/nvidia/lib64" in env["LD_LIBRARY_PATH"].split(":")


@pytest.mark.parametrize(
    ("entry", "wrong", "path", "found"),
    [
        ("training_jobs", {"memory": "2Gi"}, "training_jobs[0].memory", "2Gi"),
        ("training_jobs", {"cpu": "1"}, "training_jobs[0].cpu", "1"),
        ("inference_services", {"command": []}, "inference_services[0].command", "nothing, with 2 nodes"),
        (
            "training_jobs",
            {"volumes": {"data": "/usr/local/nvidia/lib64"}},
            "training_jobs[0].volumes.data",
            "nvidia",
        ),
    ],
)
def test_what_cannot_communicate_over_the_nics_is_refused(
    entry: str, wrong: Object, path: str, found: str
) -> None:
    platform = platform_with_jobs(MEGA)
    platform["teams"][0][entry][0] |= wrong
    platform["storage"] = {"data": {"type": "bucket", "bucket": "acme"}}
    with pytest.raises(BadInput) as caught:
        job_pods(platform)
    (problem,) = [one for one in caught.value.problems if one.path == f"teams[0].{path}"]
    assert found in problem.found
