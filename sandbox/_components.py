"""Command lines of the sandbox's processes. They run in its data folder, so relative paths start there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_platform.base.names import KWOK_NODE_ANNOTATION, SANDBOX_NAMESPACE
from gpu_platform.base.paths import CODE_ROOT, PACKAGE
from sandbox._layout import HOST, Layout
from sandbox.build import Binaries

_HERE: Final = Path(__file__).resolve().parent
_ETCD: Final = "unix://etcd:0"
_SERVICES: Final = "10.96.0.0/16"
_PODS: Final = "10.244.0.0/16"
# Address of all simulated nodes. EndpointSlices do not allow loopback addresses.
_NODE: Final = "10.10.0.1"

_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Component:
    """A process of the sandbox: its command, and the files that require a restart when they change."""

    name: str
    command: Sequence[str]
    reads: Sequence[Path] = ()


def etcd(binaries: Binaries) -> Component:
    """Return etcd. It listens only on sockets in the data folder, to which only the folder's owner has access."""
    peer = "unix://etcd-peer:0"
    return Component(
        "etcd",
        [
            str(binaries.path("etcd")),
            "--name=sandbox",
            "--data-dir=etcd",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=sandbox={peer}",
            "--unsafe-no-fsync",  # without fsync, only a crash of the whole machine can lose data
            # Ten times the default. No data is lost, because etcd's write-ahead log already contains it.
            "--backend-batch-interval=1s",
            "--max-request-bytes=8388608",  # a large CRD with its managed fields exceeds etcd's default of 1.5 MiB
            "--log-level=warn",
        ],
    )


def api_server(binaries: Binaries, layout: Layout, port: int) -> Component:
    """Return the API server, with RBAC, the default admission plugins and a self-signed certificate."""
    key = str(layout.server_key.relative_to(layout.folder))
    return Component(
        "kube-apiserver",
        [
            str(binaries.path("kube-apiserver")),
            f"--etcd-servers={_ETCD}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            # Other reconciler types fail, because Endpoints reject loopback addresses.
            "--endpoint-reconciler-type=none",
            f"--secure-port={port}",
            f"--cert-dir={layout.certificates.relative_to(layout.folder)}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}",
            f"--token-auth-file={layout.tokens.relative_to(layout.folder)}",
            "--anonymous-auth=false",
            "--authorization-mode=Node,RBAC",
            f"--service-cluster-ip-range={_SERVICES}",
            "--allow-privileged=true",
            "--enable-priority-and-fairness=false",  # the few local clients need no fair queuing
            "--profiling=false",
        ],
        reads=[layout.tokens],
    )


def controller_manager(binaries: Binaries, layout: Layout) -> Component:
    """Return the controller manager, in which each controller has its own service account."""
    user = "system:kube-controller-manager"
    kubeconfig = layout.component_kubeconfig(user)
    return Component(
        "kube-controller-manager",
        [
            str(binaries.path("kube-controller-manager")),
            f"--kubeconfig={kubeconfig.relative_to(layout.folder)}",
            "--secure-port=0",
            "--leader-elect=false",
            # This controller compiles every policy to report type errors in the policy's status.
            # Nobody uses this status, and each status update makes the API server compile the policy again.
            # The second compilation takes 6 % of a deployment's CPU time.
            "--controllers=*,-validatingadmissionpolicy-status-controller",
            "--use-service-account-credentials=true",
            f"--root-ca-file={layout.authority.relative_to(layout.folder)}",
            f"--service-account-private-key-file={layout.server_key.relative_to(layout.folder)}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--concurrent-resource-quota-syncs=10",
            "--resource-quota-sync-period=10s",  # quotas reject objects of a new kind until they are counted
            "--profiling=false",
        ],
        reads=[kubeconfig, layout.server_key],
    )


def scheduler(binaries: Binaries, layout: Layout) -> Component:
    """Return the scheduler, configured by scheduler.yaml."""
    config = _HERE / "scheduler.yaml"
    command = [str(binaries.path("kube-scheduler")), f"--config={config}", "--secure-port=0"]
    return Component(
        "kube-scheduler", command, reads=[config, layout.component_kubeconfig("system:kube-scheduler")]
    )


def kwok(binaries: Binaries, layout: Layout) -> Component:
    """Return KWOK, configured by stages.yaml. It simulates the kubelets of nodes with KWOK's annotation."""
    stages = _HERE / "stages.yaml"
    kubeconfig = layout.component_kubeconfig("kwok")
    return Component(
        "kwok",
        [
            str(binaries.path("kwok")),
            f"--kubeconfig={kubeconfig}",
            f"--config={stages}",
            f"--manage-nodes-with-annotation-selector={KWOK_NODE_ANNOTATION}=fake",
            "--manage-all-nodes=false",
            f"--cidr={_PODS}",
            f"--node-ip={_NODE}",
        ],
        reads=[stages, kubeconfig],
    )


def simulator(layout: Layout) -> Component:
    """Return the simulator for the GPU Operator and the nodes. It is restarted if its code or the catalogue
    changes.
    """
    kubeconfig = layout.component_kubeconfig("sandbox-simulator")
    folders = (_HERE / "simulator", _HERE / "nvml", PACKAGE / "catalog")
    sources = [file for folder in folders for suffix in ("py", "yaml") for file in folder.rglob(f"*.{suffix}")]
    return Component(
        "simulator",
        [sys.executable, "-m", "sandbox.simulator", "--kubeconfig", str(kubeconfig)],
        reads=[kubeconfig, *sources],
    )


def kueue(binaries: Binaries, layout: Layout, port: int) -> Component:
    """Return the process that runs Kueue's controller. It is restarted if its code changes."""
    kubeconfig = layout.component_kubeconfig("kueue")
    command = [sys.executable, "-m", "sandbox.kueue", "--kubeconfig", str(kubeconfig)]
    command += ["--binary", str(binaries.path("kueue")), "--manifests", str(binaries.manifests("kueue"))]
    command += ["--folder", str(layout.kueue), "--port", str(port)]
    return Component("kueue", command, reads=[kubeconfig, *(_HERE / "kueue").glob("*.py")])


def karpenter(binaries: Binaries, layout: Layout) -> Component:
    """Return Karpenter with the machine types in the catalogue.

    Karpenter has no setting for the addresses of its metrics and health endpoints. They listen on all interfaces,
    on free ports.
    """
    kubeconfig = layout.component_kubeconfig("karpenter")
    command = ["env", f"KUBECONFIG={kubeconfig}", f"SYSTEM_NAMESPACE={SANDBOX_NAMESPACE}"]
    command += [str(binaries.path("karpenter")), f"--instance-types-file-path={layout.instance_types}"]
    command += ["--disable-leader-election=true", "--metrics-port=0", "--health-probe-port=0", "--log-level=info"]
    return Component("karpenter", command, reads=[kubeconfig, layout.instance_types])


def environment(layout: Layout) -> Mapping[str, str]:
    """Return the environment variables of all components, without the user's settings for Kubernetes and Go."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # The simulator comes from this source tree, even if the virtual environment has another version.
    return {
        **kept,
        "PYTHONPATH": str(CODE_ROOT),
        "TMPDIR": str(layout.scratch),
        "KWOK_WORKDIR": str(layout.scratch),
        # With one thread and fewer garbage collections, the Go processes use a quarter less CPU time.
        # A cluster as small as a sandbox does not become slower.
        "GOMAXPROCS": "1",
        "GOGC": "300",
    }
