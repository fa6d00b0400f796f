"""How the node agent's pods on GKE mount the host's sysfs to read the MTU of the GPU networks."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from gke_recorded import RDMA_FABRICS, TCP_FABRICS, platform_of

from tests.support.recorded import Recorded, record_platform
from validators.agent.fabric import SYSFS_VARIABLE, read_interfaces

WITHOUT_FABRIC: dict[str, Any] = {"name": "serve", "machine_type": "g2-standard-48", "workload": "inference"}
WITH_MTU = [pool["name"] for pool in TCP_FABRICS]
# The MTU of networks that GKE creates from a network profile is unknown, so it is not checked.
WITHOUT_MTU = ["serve", *(pool["name"] for pool in RDMA_FABRICS)]


@cache
def agents() -> dict[str, dict[str, Any]]:
    """Return the agent's pod of each pool. The pools are in two clusters, because TCP and RDMA networks exclude
    each other.
    """
    recordings = [
        record_platform(platform_of(*TCP_FABRICS, WITHOUT_FABRIC)),
        record_platform(platform_of(*RDMA_FABRICS)),
    ]
    return {name: pod for recording in recordings for name, pod in _agents(recording)}


def _agents(recording: Recorded) -> list[tuple[str, dict[str, Any]]]:
    sets = [record.inputs for record in recording.of("DaemonSet")]
    return [
        (one["metadata"]["name"].removeprefix("validate-"), one["spec"]["template"]["spec"])
        for one in sets
        if one["metadata"]["name"].startswith("validate-")
    ]


def of_sysfs(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the container's mounts of sysfs folders and of the host's root, by host folder. The pod must have
    only one container.
    """
    host = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    [container] = pod["containers"]
    paths = {host[mount["name"]]: mount for mount in container["volumeMounts"] if mount["name"] in host}
    return {path: mount for path, mount in paths.items() if path == "/" or f"{path}/".startswith("/sys/")}


def sysfs_variable(pod: dict[str, Any]) -> str | None:
    return {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}.get(SYSFS_VARIABLE)


@pytest.mark.parametrize("pool", WITH_MTU)
def test_an_agent_that_checks_the_mtu_mounts_only_devices_of_sysfs(pool: str):
    pod = agents()[pool]
    root = sysfs_variable(pod)
    assert {path: mount["mountPath"] for path, mount in of_sysfs(pod).items()} == {
        "/sys/bus/pci/devices": f"{root}/bus/pci/devices",
        "/sys/devices": f"{root}/devices",
    }


@pytest.mark.parametrize("pool", WITH_MTU)
def test_the_agents_sysfs_mounts_are_read_only_without_propagation(pool: str):
    pod = agents()[pool]
    mounts = of_sysfs(pod).values()
    assert len(mounts) == 2
    for mount in mounts:
        assert mount["readOnly"] is True
        assert "mountPropagation" not in mount
    security = pod["containers"][0]["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 65534)
    assert not [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]


@pytest.mark.parametrize("pool", WITHOUT_MTU)
def test_an_agent_that_does_not_check_the_mtu_mounts_no_sysfs(pool: str):
    pod = agents()[pool]
    assert of_sysfs(pod) == {}
    assert sysfs_variable(pod) is None


def test_two_sysfs_folders_suffice_to_resolve_pci_device_links(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    # Links in sysfs are relative, so both folders must have their usual paths below one root.
    pod = agents()[WITH_MTU[0]]
    root = sysfs_variable(pod) or ""
    here = {path: tmp_path / mount["mountPath"].lstrip("/") for path, mount in of_sysfs(pod).items()}
    nic = here["/sys/devices"] / "pci0000:00" / "0000:00:0c.0"
    for file, text in {
        "vendor": "0x1ae0",
        "device": "0x0042",
        "class": "0x020000",
        "net/eth1/mtu": "8244",
    }.items():
        (nic / file).parent.mkdir(parents=True, exist_ok=True)
        (nic / file).write_text(f"{text}\n", encoding="ascii")
    here["/sys/bus/pci/devices"].mkdir(parents=True)
    (here["/sys/bus/pci/devices"] / nic.name).symlink_to(f"../../../devices/pci0000:00/{nic.name}")
    monkeypatch.setenv(SYSFS_VARIABLE, str(tmp_path / root.lstrip("/")))
    assert read_interfaces() == [["gvnic", "eth1", 8244]]
