"""The Go modules that pin the control plane's versions: the default module, and one for each other Kubernetes
version.

The module uses only the standard library, because it runs before other packages are installed.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

KUEUE_MODULE: Final = "sigs.k8s.io/kueue"
KARPENTER_MODULE: Final = "sigs.k8s.io/karpenter"
KUBERNETES: Final = "k8s.io/kubernetes"
ETCD: Final = "go.etcd.io/etcd/server/v3"
KWOK: Final = "sigs.k8s.io/kwok"
_HERE: Final = Path(__file__).resolve().parent
# Kubernetes binaries by name, each with the Go package that it is built from.
_OF_KUBERNETES: Final = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
KUBERNETES_PROGRAMS: Final = tuple(_OF_KUBERNETES)
# Only the default module builds these binaries, because they work with every Kubernetes version.
_OF_ALL_VERSIONS: Final = {"kwok": f"{KWOK}/cmd/kwok", "etcd": ETCD}


@dataclass(frozen=True)
class GoModule:
    """One `go.mod` with its `go.sum`, and the binaries that are built from it. `packages` maps each binary's name
    to its Go package.
    """

    folder: Path
    packages: dict[str, str]
    title: str = "control plane"
    copied: tuple[str, ...] = ()
    """Files and folders of the module `copied_from` that are kept in the folder `manifests`, next to the binaries.
    """
    copied_from: str = KUEUE_MODULE
    stamped: bool = True
    """Whether the binaries report the Kubernetes version."""
    tags: tuple[str, ...] = ()
    """Go build tags."""

    @property
    def go_mod(self) -> str:
        """Content of go.mod."""
        return (self.folder / "go.mod").read_text()

    def pinned(self, module: str) -> str:
        """Return the version that is pinned for a Go module, such as `v1.36.3`."""
        match = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", self.go_mod, re.MULTILINE)
        if match is None:
            raise LookupError(f"{module} is not in {self.folder / 'go.mod'}")
        return match[1]

    def only(self, programs: Collection[str]) -> GoModule:
        """Return the module with only the given binaries."""
        packages = {program: package for program, package in self.packages.items() if program in programs}
        return self if packages == self.packages else replace(self, packages=packages, title=join_words(packages))

    @property
    def kubernetes(self) -> str:
        """Minor version of Kubernetes, such as 1.36."""
        return self.pinned(KUBERNETES).removeprefix("v").rpartition(".")[0]

    @property
    def go_release(self) -> tuple[int, ...]:
        """Go release that the module requires."""
        match = re.search(r"^go (\d+(?:\.\d+)*)$", self.go_mod, re.MULTILINE)
        if match is None:
            raise LookupError(f"no go directive in {self.folder / 'go.mod'}")
        return tuple(int(part) for part in match[1].split("."))

    @property
    def flags(self) -> list[str]:
        """Flags for `go list` and `go build`."""
        tags = [f"-tags={','.join(self.tags)}"] if self.tags else []
        # The linker drops DWARF data anyway.
        # If the compiler writes no DWARF data, the build uses an eighth less CPU time.
        return ["-mod=readonly", "-trimpath", "-gcflags=all=-dwarf=false", f"-ldflags={self.link_flags}", *tags]

    @property
    def link_flags(self) -> str:
        """Linker flags that set the version of the binaries, and omit the symbol table and DWARF data."""
        if not self.stamped:
            return "-s -w"
        kubernetes = self.pinned(KUBERNETES)
        major, minor, _ = kubernetes.removeprefix("v").split(".")
        values = {
            "gitVersion": kubernetes,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
            "gitCommit": "",
        }
        stamps = [
            f"-X {package}.{name}={value}"
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
            for name, value in values.items()
        ]
        return " ".join(["-s", "-w", *stamps])

    @property
    def build_key(self) -> str:
        """Name of the folder with the built binaries: a hash of the pins, the link flags and the platform.

        The hash does not cover the Go release, so that the binaries are still found after Go is removed or
        upgraded.
        """
        sums = (self.folder / "go.sum").read_text()
        parts = [self.go_mod, sums, self.link_flags, platform.system(), platform.machine()]
        parts += [*self.copied, *self.tags]
        return hashlib.sha256("\0".join([*parts, *self.packages.values()]).encode()).hexdigest()[:16]


DEFAULT: Final = GoModule(_HERE, {**_OF_KUBERNETES, **_OF_ALL_VERSIONS})


# Built only for stacks with queues. Kueue's manifests come from its Go module, outside this repository.
KUEUE: Final = GoModule(
    _HERE / "kueue",
    {"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    title="Kueue",
    copied=("config/components/crd/bases", "config/components/webhook/manifests.yaml"),
)

# Built only on request: by `python -m sandbox.build --karpenter`, or for a sandbox that runs Karpenter.
KARPENTER: Final = GoModule(
    _HERE / "karpenter",
    {"karpenter": "sigs.k8s.io/karpenter/kwok"},
    title="Karpenter",
    copied=("pkg/apis/crds", "kwok/apis/crds"),
    copied_from=KARPENTER_MODULE,
    stamped=False,
)

KEDA_MODULE: Final = "github.com/kedacore/keda/v2"
# Built only for tests, by `python -m sandbox.build --keda`.
# KEDA links the clients of every cloud, so the build takes half an hour of CPU time.
KEDA: Final = GoModule(
    _HERE / "keda",
    {"keda-operator": f"{KEDA_MODULE}/cmd/operator", "keda-adapter": f"{KEDA_MODULE}/cmd/adapter"},
    title="KEDA",
    copied=("config/crd/bases",),
    copied_from=KEDA_MODULE,
    stamped=False,
)

PROMETHEUS_MODULE: Final = "github.com/prometheus/prometheus"
# Built only for tests, by `python -m sandbox.build --prometheus`, if Debian's package is not installed.
# The build tag leaves out service discovery, which tests do not need.
# Service discovery would link the clients of every cloud.
PROMETHEUS: Final = GoModule(
    _HERE / "prometheus",
    {program: f"{PROMETHEUS_MODULE}/cmd/{program}" for program in ("prometheus", "promtool")},
    title="Prometheus",
    stamped=False,
    tags=("remove_all_sd",),
)


def join_words(words: Iterable[str]) -> str:
    """Join words as in a sentence: `a, b and c`."""
    *first, last = [*words] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def module_of(kubernetes: str) -> GoModule:
    """Return the module of a Kubernetes minor version. Raises LookupError if there is none."""
    if kubernetes == DEFAULT.kubernetes:
        return DEFAULT
    folder = _HERE / "kubernetes" / kubernetes
    if not (folder / "go.mod").is_file():
        raise LookupError(f"no {folder / 'go.mod'}")
    return GoModule(folder, dict(_OF_KUBERNETES))


def kubernetes_versions() -> tuple[str, ...]:
    """Return the Kubernetes minor versions that a sandbox can run, oldest first."""
    others = (file.parent.name for file in (_HERE / "kubernetes").glob("*/go.mod"))
    return tuple(sorted({DEFAULT.kubernetes, *others}, key=lambda version: int(version.partition(".")[2])))
