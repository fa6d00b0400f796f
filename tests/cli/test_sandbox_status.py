"""`gpu-platform sandbox status` for a sandbox in which a component has failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_platform.cli import main
from sandbox import control_plane


@pytest.mark.parametrize(
    ("api_server", "said"), [(11, "the API server does not answer"), (None, "some components are not running")]
)
def test_a_degraded_sandbox_says_what_is_wrong_and_what_mends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], api_server: int | None, said: str
) -> None:
    found = control_plane.Status(
        name="demo",
        state="degraded",
        data_dir=Path("demo"),
        kubeconfig=Path("demo/kubeconfig"),
        server="https://127.0.0.1:1",
        kubernetes="v1.36.3",
        pids={"etcd": 10, "kube-apiserver": api_server},
    )
    monkeypatch.setattr(control_plane, "status", lambda _: found)
    with pytest.raises(SystemExit) as stop:
        main(["sandbox", "status", "--name", "demo"])
    assert stop.value.code == 1
    assert f"{said}: `gpu-platform sandbox up --name demo`" in capsys.readouterr().out
