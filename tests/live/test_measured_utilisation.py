"""The query for measured utilisation, evaluated by Prometheus' rule tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from gpu_platform.live.measured import utilisation_query
from tests.support.prometheus_programs import PROMTOOL, needs_promtool


@needs_promtool
def test_hours_with_many_nodes_count_more_than_hours_with_one(tmp_path: Path) -> None:
    """9 nodes of 8 GPUs are busy for 4 hours. Then one node is idle for 12 hours."""
    test = {
        "interval": "5m",
        "input_series": [
            {"series": 'pool:active:ratio{pool="train"}', "values": "0.9x47 0x143"},
            {"series": 'pool:gpus:count{pool="train"}', "values": "72x47 8x143"},
        ],
        "promql_expr_test": [
            {
                "expr": f"round({utilisation_query('16h')}, 0.001)",
                "eval_time": "955m",
                "exp_samples": [{"labels": '{pool="train"}', "value": 0.675}],
            }
        ],
    }
    (tmp_path / "rules.yaml").write_text("groups: []\n")
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [test]}))
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "test", "rules", "test.yaml"], text=True, capture_output=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
