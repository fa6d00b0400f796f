"""The queries in docs/workloads.md that scale services, evaluated by Prometheus' rule tests."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from gpu_platform.base.paths import PROJECT_ROOT
from tests.support.prometheus_programs import PROMTOOL, needs_promtool

_ROW = re.compile(r"\| ([^|`]+) \| `([^`]+)` \| `([0-9.]+)` \|")
# Series, and the number of replicas that their load requires.
_POD = 'namespace="search", pod="chat-{}"'
LOADS: Mapping[str, tuple[Mapping[str, str], int]] = {
    "GPUs in use": (
        {
            **{f'gpu:active:ratio{{{_POD.format(n)}, gpu="{gpu}"}}': "0.9x20" for n in (0, 1) for gpu in (0, 1)},
            'gpu:active:ratio{namespace="search", pod="index-0", gpu="0"}': "1x20",
        },
        3,
    ),
    "GPU memory": ({f'gpu:memory_used:ratio{{{_POD.format(n)}, gpu="0"}}': "0.95x20" for n in (0, 1)}, 3),
    "waiting requests": (
        {f"vllm:num_requests_waiting{{{_POD.format(n)}}}": "9x20" for n in (0, 1)},
        4,
    ),
    "p99 in seconds": (
        {
            **{f"vllm:num_requests_waiting{{{_POD.format(n)}}}": "0x20" for n in (0, 1)},
            **{
                f'vllm:e2e_request_latency_seconds_bucket{{{_POD.format(n)}, le="{le}"}}': f"0+{count}x20"
                for n in (0, 1)
                for le, count in (("2", 0), ("4", 100), ("+Inf", 100))
            },
        },
        4,  # two replicas have a p99 of 3.98 s, and the target is 2 s
    ),
    "lag of a Kafka consumer": (
        {f'kafka_consumergroup_lag{{consumergroup="chat", partition="{n}"}}': "70x20" for n in range(3)},
        3,
    ),
}


def rows() -> Iterator[tuple[str, str, float]]:
    """Yield the metric, the query and the threshold of each table row."""
    for line in (PROJECT_ROOT / "docs" / "workloads.md").read_text("utf-8").splitlines():
        if found := _ROW.fullmatch(line):
            yield found[1], found[2], float(found[3])


@needs_promtool
def test_each_documented_query_asks_for_the_replicas_that_its_load_needs(tmp_path: Path) -> None:
    found = list(rows())
    assert [name for name, _, _ in found] == list(LOADS)
    tests = []
    for name, query, threshold in found:
        series, replicas = LOADS[name]
        # Like the HorizontalPodAutoscaler, divide by the target value of a replica and round up.
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": [{"series": key, "values": values} for key, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f"ceil(({query}) / {threshold:g})",
                        "eval_time": "15m",
                        "exp_samples": [{"labels": "{}", "value": replicas}],
                    }
                ],
            }
        )
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", "test.yaml"], text=True, capture_output=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
