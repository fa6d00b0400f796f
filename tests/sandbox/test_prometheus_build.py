"""When Prometheus and promtool are built for tests, and what the build omits."""

from __future__ import annotations

import re

from gpu_platform.base.progress import Progress
from sandbox import build
from sandbox._modules import DEFAULT, KARPENTER, KEDA, KUEUE, PROMETHEUS
from tests.sandbox.test_control_plane_build import Go, cache, go

__all__ = ["cache", "go"]  # fixtures


def test_neither_a_sandbox_nor_a_build_of_all_versions_builds_it(go: Go) -> None:
    go.install()
    assert build.main(["--all"]) == 0
    assert not any("prometheus" in command for command in go.calls("build"))
    assert build.built_prometheus("promtool") is None


def test_it_is_built_on_request_without_the_clients_of_clouds(go: Go) -> None:
    go.install()
    assert build.main(["--prometheus"]) == 0
    (command,) = (one for one in go.calls("build") if "prometheus" in one)
    assert "-tags=remove_all_sd" in command
    assert build.built_prometheus("promtool") == build.binaries(Progress(quiet=True), prometheus=True).path(
        "promtool"
    )
    assert build.built_prometheus("prometheus") is not None


def test_no_other_module_has_build_tags() -> None:
    assert [one.title for one in (DEFAULT, KUEUE, KARPENTER, KEDA, PROMETHEUS) if one.tags] == ["Prometheus"]


def test_the_go_of_the_wheel_builds_every_module() -> None:
    wheel = tuple(int(part) for part in re.findall(r"\d+", build.GO_WHEEL))
    for module in (KUEUE, KARPENTER, KEDA, PROMETHEUS):
        assert module.go_release <= wheel, module.title
