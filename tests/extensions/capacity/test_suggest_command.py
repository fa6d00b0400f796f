"""`gpu-platform capacity suggest` as a user calls it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from extensions.capacity.suggest.command import suggest_pools
from gpu_platform.cli import main
from gpu_platform.stack.loaded import plan_platform

WORKLOADS = """\
provider: aws
machine_families: [g4dn, g6, p4de, p5]
workloads:
  - {name: chat, kind: inference, count: 6, trust_domain: shop, gpu_memory: 10GB, compute: 0.4}
  - {name: rank, kind: inference, count: 6, trust_domain: bank, gpu_memory: 3GB, compute: 0.2, cpu: 500m}
  - {name: lab, kind: development, count: 8, trust_domain: shop, gpu_memory: 4GB, compute: 0.1, cpu: 500m}
  - {name: pretrain, kind: training, count: 1, trust_domain: shop, gpu_memory: 70GB, gpus: 8, cpu: 80}
"""


@pytest.fixture
def workloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = Path("workloads.yaml")
    file.write_text(WORKLOADS, "utf-8")
    return file


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["capacity", "suggest", *arguments])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return int(stop.value.code or 0), printed.out, printed.err


def test_a_suggestion_is_the_one_that_was_reviewed(
    capsys: pytest.CaptureFixture[str], workloads: Path, snapshot: SnapshotAssertion
) -> None:
    code, out, _ = _run(capsys, "--workloads", str(workloads))
    assert code == 0
    assert out == snapshot


def test_the_printed_pools_section_plans_as_part_of_a_stack(
    capsys: pytest.CaptureFixture[str], workloads: Path
) -> None:
    _, out, _ = _run(capsys, "--workloads", str(workloads))
    section = yaml.safe_load(out)
    assert list(section) == ["pools"]
    plan = plan_platform({"kind": "environment", "cluster": {"provider": "sandbox"}, **section}, "suggested")
    assert plan.kind == "environment"
    _, printed, _ = _run(capsys, "--workloads", str(workloads), "--format", "json")
    document = json.loads(printed)
    assert [one["pool"] for one in document["pools"]] == section["pools"]
    assert plan.cost.usd_per_hour == pytest.approx(document["usd_per_hour"], abs=1e-3)
    assert document["optimal"]
    assert all(one["reasons"] and one["next_best"]["usd_per_hour"] for one in document["pools"])


def test_the_prices_of_the_region_are_compared_and_named_with_their_date(
    capsys: pytest.CaptureFixture[str], workloads: Path
) -> None:
    text = WORKLOADS.replace("provider: aws", "region: eu-central-1")
    text = text.replace("[g4dn, g6, p4de, p5]", "[g4dn, g6, p4de, p5, p5e, g2-standard]")
    workloads.write_text(text, "utf-8")
    _, out, _ = _run(capsys, "--workloads", str(workloads))
    assert "# prices: list, on demand, eu-central-1, 2025-11-30" in out
    assert "training-a100-80gb-whole: 1 x p4de.24xlarge, 34.29 USD/h" in out
    assert "# excluded, price unknown in eu-central-1: p5.4xlarge, p5.48xlarge" in out
    assert "g2-standard" not in out, "Google Cloud has no eu-central-1"
    _, printed, _ = _run(capsys, "--workloads", str(workloads), "--format", "json")
    document = json.loads(printed)
    assert (document["price_region"], document["prices"]) == (
        "eu-central-1",
        "list, on demand, eu-central-1, 2025-11-30",
    )


def test_a_time_limit_prints_the_gap_and_unfit_workloads(
    capsys: pytest.CaptureFixture[str], workloads: Path
) -> None:
    wide = "{name: wide, kind: inference, count: 1, trust_domain: x, gpu_memory: 4GB, gpus: 16}"
    workloads.write_text(f"workloads: [{_ONE}, compute: 0.3}}, {wide}]", "utf-8")
    suggest_pools(workloads, seconds=0, to_json=False)
    out = capsys.readouterr().out
    assert (
        "time limit reached: this is the best mix found, at most 0.71 USD/h (1% of the price) above the bound"
        in out
    )
    assert "# aws: cannot hold these workloads: no allowed machine type fits a pod of workload 'wide'" in out


def test_where_no_machine_has_a_price_in_the_region_nothing_is_suggested(
    capsys: pytest.CaptureFixture[str], workloads: Path
) -> None:
    workloads.write_text(f"region: eu-west-1\nmachine_families: [p5]\nworkloads: [{_ONE}}}]", "utf-8")
    code, _, err = _run(capsys, "--workloads", str(workloads))
    assert code == 2
    assert "no known price of an allowed machine type in eu-west-1" in err


def test_a_price_of_the_workloads_file_counts_in_a_region_without_list_prices(
    capsys: pytest.CaptureFixture[str], workloads: Path
) -> None:
    own = "usd_per_hour: {p5.48xlarge: 60}"
    text = f"region: eu-west-9\n{own}\nmachine_families: [p5]\nworkloads: [{_ONE}}}]"
    workloads.write_text(text, "utf-8")
    _, out, _ = _run(capsys, "--workloads", str(workloads))
    assert "# prices: from the workloads file for p5.48xlarge" in out


_ONE = "{name: a, kind: inference, count: 1, trust_domain: x, gpu_memory: 4GB"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("workloads: []", "workloads: found []; allowed: a list with at least one entry"),
        ("{}", "workloads: found nothing"),
        ("workloads: [{name: a}]", "workloads[0].gpu_memory: found nothing"),
        (f"workloads: [{_ONE}, latency: low}}]", "workloads[0].latency: found unknown key 'latency'"),
        (
            f"workloads: [{_ONE}, compute: 20}}]",
            "found 20; allowed: a number above 0, at most 1. Fix: write 0.2 for 20 %",
        ),
        (f"workloads: [{_ONE}, compute: 0}}]", "workloads[0].compute: found 0"),
        (f"workloads: [{_ONE}, objective: fast}}]", "one of latency, throughput"),
        (f"workloads: [{_ONE.replace('4GB', '4')}}}]", "workloads[0].gpu_memory: found 4"),
        (f"workloads: [{_ONE.replace('inference', 'serving')}}}]", "one of training, inference, development"),
        (f"workloads: [{_ONE.replace('count: 1', 'count: 0')}}}]", "workloads[0].count: found 0"),
        (f"workloads: [{_ONE}}}, {_ONE}}}]", "workloads[1].name: found 'a' again"),
        (f"workloads: [{_ONE}, measured_on: h1000}}]", "workloads[0].measured_on: found 'h1000'"),
        (f"workloads: [{_ONE}, gpus: 2, compute: 0.5}}]", "workloads[0].compute: found 0.5 on 2 GPUs; allowed: 1"),
        (f"machine_families: [g66]\nworkloads: [{_ONE}}}]", "machine_families[0]: found 'g66'; allowed: one of"),
        (f"usd_per_hour: {{g4.big: 1}}\nworkloads: [{_ONE}}}]", "usd_per_hour.g4.big: found 'g4.big'"),
        (
            f"usd_per_hour: {{g4dn.xlarge: .inf}}\nworkloads: [{_ONE}}}]",
            "usd_per_hour.g4dn.xlarge: found Infinity",
        ),
        (f"usd_per_hour: {{g4dn.xlarge: 1000000}}\nworkloads: [{_ONE}}}]", "a number above 0, at most 100000"),
        (f"provider: oracle\nworkloads: [{_ONE}}}]", "one of aws, gcp, azure, on-prem"),
        (
            f"region: eu-west-9\nworkloads: [{_ONE}}}]",
            "region: found 'eu-west-9'; allowed: a region with list prices: ",
        ),
        (f"region: 7\nworkloads: [{_ONE}}}]", "region: found 7"),
        (
            f"provider: on-prem\nworkloads: [{_ONE}}}]",
            "usd_per_hour: found no known price of an allowed machine type",
        ),
        (
            f"provider: aws\nmachine_families: [g4dn]\nworkloads: [{_ONE.replace('4GB', '20GB')}}}]",
            "workloads[0].gpu_memory: found 19074 MiB on its GPU; allowed: at most 15360 MiB",
        ),
        (
            f"provider: aws\nmachine_families: [g4dn]\nworkloads: [{_ONE}, gpus: 4, nvlink: true}}]",
            "workloads[0].gpus: found 4 GPUs with NVLink; "
            "allowed: none, because no allowed machine connects all its GPUs with NVLink",
        ),
        (
            f"provider: aws\nmachine_families: [g4dn]\nworkloads: [{_ONE}, measured_on: H100}}]",
            "workloads[0].measured_on: found 'h100-80gb'; allowed: a GPU of the allowed machines (t4)",
        ),
        (
            f"provider: aws\nmachine_families: [g4dn]\nworkloads: [{_ONE}, cpu: 500}}]",
            "workloads[0].cpu: found 500000m CPU and 4096 MiB of memory in one pod",
        ),
        ("workloads: [{", "line 2, column 1: found invalid YAML: did not find"),
        (f"provider: aws\nprovider: gcp\nworkloads: [{_ONE}}}]", "the key 'provider' twice"),
    ],
)
def test_a_wrong_workloads_file_is_refused_with_place_found_allowed_and_fix(
    capsys: pytest.CaptureFixture[str], workloads: Path, text: str, problem: str
) -> None:
    workloads.write_text(text, "utf-8")
    code, out, err = _run(capsys, "--workloads", str(workloads))
    assert code == 2
    assert not out
    assert problem in err


def test_all_mistakes_of_a_workloads_file_are_reported_at_once(
    capsys: pytest.CaptureFixture[str], workloads: Path
) -> None:
    workloads.write_text(f"workloads: [{_ONE}, measured_on: x1}}, {_ONE}, gpus: 2, compute: 0.5}}]", "utf-8")
    code, _, err = _run(capsys, "--workloads", str(workloads), "--format", "json")
    assert code == 2
    for place in ("workloads[0].measured_on", "workloads[1].name", "workloads[1].compute"):
        assert f": {place}: found" in err


def test_a_missing_workloads_file_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, "--workloads", "nowhere.yaml")
    assert code == 2
    assert "nowhere.yaml" in err


def test_the_fixes_of_a_workloads_file_are_values_that_it_accepts(
    capsys: pytest.CaptureFixture[str], workloads: Path
) -> None:
    workloads.write_text("workloads:\n  - {name: chat, kind: inference, gpu_memory: 10}\n", "utf-8")
    code, _, err = _run(capsys, "--workloads", str(workloads))
    assert code == 2
    fixes = re.findall(r"workloads\[0\]\.(\w+): .* Fix: (?:add|write) (?:\w+: )?(.+)", err)
    assert dict(fixes).keys() == {"count", "trust_domain", "gpu_memory"}
    entry = yaml.safe_load(workloads.read_text("utf-8"))["workloads"][0]
    entry |= {field: yaml.safe_load(value) for field, value in fixes}
    workloads.write_text(yaml.safe_dump({"workloads": [entry]}), "utf-8")
    assert _run(capsys, "--workloads", str(workloads))[0] == 0


@pytest.mark.parametrize(
    ("field", "fix"),
    [("count: {desired: 2}", "for example, write count: 1"), ("gpu_memory: '10'", "write 10Gi")],
)
def test_a_wrong_value_of_a_workloads_file_gets_a_fix_of_its_own_kind(
    capsys: pytest.CaptureFixture[str], workloads: Path, field: str, fix: str
) -> None:
    workloads.write_text(
        f"workloads:\n  - {{name: chat, kind: inference, trust_domain: shop, {field}}}\n", "utf-8"
    )
    assert f"Fix: {fix}\n" in _run(capsys, "--workloads", str(workloads))[2]
