"""The query that tells idle GPUs from GPUs without metrics, evaluated by Prometheus' rule tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from gpu_platform.cleanup.program import activity_query
from tests.support.prometheus_programs import PROMTOOL, needs_promtool

POD = '{namespace="vision", pod="nb-0", gpu="0"}'


@pytest.mark.parametrize(("window", "steps"), [(7200, 21), (168 * 3600, 2004), (60, 9)])
def test_metrics_may_be_missing_for_a_tenth_of_the_time_but_for_an_hour_at_most(window: int, steps: int) -> None:
    assert activity_query("vision", window).endswith(f" >= {steps}")


# One value a minute for four hours. The query looks at the last two hours.
@needs_promtool
@pytest.mark.parametrize(
    ("values", "found"),
    [
        ("0x240", True),  # idle all the time
        ("0x150 _x6 0x84", True),  # Prometheus was restarted
        ("_x200 0x40", False),  # Prometheus lost its data, or is 40 minutes old
        ("0x150 _x40 0x50", False),  # Prometheus was down for 40 minutes
    ],
)
def test_only_a_pod_that_was_measured_all_the_time_can_be_idle(tmp_path: Path, values: str, found: bool) -> None:
    expected = [{"labels": '{pod="nb-0"}', "value": 0}] if found else []
    test = {
        "interval": "1m",
        "input_series": [{"series": f"gpu:active:ratio{POD}", "values": values}],
        "promql_expr_test": [
            {"expr": activity_query("vision", 7200), "eval_time": "4h", "exp_samples": expected},
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", "test.yaml"], text=True, capture_output=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
