"""A newer Kubernetes version in the stack file is reported, previewed without a change, and upgraded in place."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.base.progress import Progress
from gpu_platform.live.client import KubernetesClient
from sandbox import control_plane
from sandbox._modules import kubernetes_versions
from tests.e2e.conftest import BASE, Platform
from tests.support.eventually import eventually

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-kubernetes-upgrade")]

OLDER, NEWER = kubernetes_versions()[-2:]
DEFAULTS = ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy")
NAME = "e2e-older"
KEPT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kept", "namespace": "default"},
    "data": {"a": "b"},
}


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A sandbox with an older version, whose binaries `make suite` built. The last test upgrades the sandbox."""
    status = control_plane.up(NAME, kubernetes=OLDER, progress=Progress(quiet=True))
    yield Platform(KubernetesClient(status.kubeconfig), status.kubeconfig, tmp_path_factory.mktemp("older"), {})
    control_plane.down(NAME)


def stack(kubernetes: str) -> dict[str, Any]:
    found = copy.deepcopy(BASE)
    found["cluster"] = {"provider": "sandbox", "name": NAME, "kubernetes": kubernetes}
    return found


def test_an_older_cluster_than_the_plan_expects_is_an_error_that_names_the_field(older: Platform) -> None:
    newest = stack(OLDER)
    del newest["cluster"]["kubernetes"]
    ran = older.up(newest)
    assert ran.code == 1
    assert "does not serve it; write this version as cluster.kubernetes" in ran.err


def test_a_newer_version_is_reported_previewed_and_upgraded_in_place(
    older: Platform,
) -> None:
    ran = older.up(stack(OLDER))
    assert ran.code == 0, ran.err
    (before,) = older.client.objects("v1", "Pod", namespace="vision")
    assert older.client.find_resource(*DEFAULTS) is None
    report = older.run("upgrade", str(older.write(stack(OLDER))), "--format", "json").json
    (step,) = report["steps"]
    assert (step["edits"], step["disturbs"][0]["effect"]) == ({"cluster.kubernetes": NEWER}, "in-place")

    preview = older.run("preview", str(older.write(stack(NEWER))), "--engine", "embedded", "--format", "json")
    (row,) = preview.json["impact"]["changes"]
    assert (row["subject"], row["old"], row["new"], row["effect"]) == ("cluster", OLDER, NEWER, "in-place")
    assert older.client.kubernetes_version().startswith(f"v{OLDER}.")

    older.client.create(KEPT)
    running = control_plane.status(NAME)
    ran = older.up(stack(NEWER))
    assert ran.code == 0, ran.err
    assert ran.json["validation"]["verdict"] == "pass"
    upgraded = control_plane.status(NAME)
    assert (upgraded.state, upgraded.server) == ("running", running.server)
    restarted = {name for name, pid in upgraded.pids.items() if pid != running.pids[name]}
    assert restarted == {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
    client = KubernetesClient(older.kubeconfig)
    found = client.get("v1", "ConfigMap", "kept", "default")
    assert found is not None
    assert found["data"] == KEPT["data"]
    # The new namespace receives its service account only if the controllers work.
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "after"}})
    eventually(lambda: client.get("v1", "ServiceAccount", "default", "after") is not None)
    assert client.get(*DEFAULTS, "defaults-of-vision") is not None
    assert client.kubernetes_version().startswith(f"v{NEWER}.")
    (after,) = client.objects("v1", "Pod", namespace="vision")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]

    refused = older.run("preview", str(older.write(stack(OLDER))), "--engine", "embedded")
    assert refused.code == 2
    assert "cluster.kubernetes: found" in refused.err
    assert "cannot be downgraded" in refused.err

    # A sandbox keeps its version if none is given.
    assert control_plane.up(NAME, progress=Progress(quiet=True)).pids == upgraded.pids
    assert control_plane.status(NAME).kubernetes.startswith(f"v{NEWER}.")
