"""Each independent mistake in a stack file is reported once, with a fix. Its consequences are not reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.stack.loaded import load_stack
from gpu_platform.stack.positions import located
from tests.support.eks_stacks import plan_eks

LOCAL = (STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8")


WORKLOAD = "{name: pretrain, pool: train, gpus: 4, replicas: 2, cpu: 16, memory: 128Gi"


def _problems(tmp_path: Path, *changes: tuple[str, str]) -> list[Problem]:
    text = LOCAL
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = tmp_path / "Pulumi.changed.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(BadInput) as caught:
        load_stack(str(path))
    return list(located(caught.value).problems)


@pytest.mark.parametrize(
    ("change", "path", "fix"),
    [
        (("provider: sandbox", "provider: aws"), "cluster.provider", "did you mean 'eks'?"),
        (("provider: sandbox", "provider: gcp"), "cluster.provider", "did you mean 'gke'?"),
        (("level: mandatory", "level: warn"), "policy.level", "did you mean 'advisory'?"),
        (("level: mandatory", "level: enforce"), "policy.level", "did you mean 'mandatory'?"),
        (
            ("count: {desired: 2}", "count: {min: 4, desired: 3}"),
            "pools[0].count",
            "write min: 3 or desired: 4, because the minimum is above the desired number",
        ),
        (
            ("count: {desired: 2}", "count: {desired: 3, max: 2}"),
            "pools[0].count",
            "write max: 3 or desired: 2, because the desired number is above the maximum",
        ),
        (("count: {desired: 2}", "count: 4"), "pools[0].count", "write count: {desired: 4}"),
        (
            ("workload: training", "workload: training\n        capacity: on_demand"),
            "pools[0].capacity",
            "write capacity: {type: on-demand}",
        ),
        (
            ("workload: training", 'workload: training\n        taints: ["nvidia.com/gpu=true:NoSchedule"]'),
            "pools[0].taints[0]",
            'write {key: nvidia.com/gpu, value: "true", effect: NoSchedule}',
        ),
        (
            ("{mode: time-slicing, ", "{mode: time-slicing, layout: {1g.10gb: 7}, "),
            "pools[1].sharing.layout",
            "remove it, or write mode: mig",
        ),
        (
            (WORKLOAD, f"{WORKLOAD}, image: 'registry.example.com/a:1', command: torchrun train.py"),
            "teams[0].workloads[0].command",
            "write command: [torchrun, train.py]",
        ),
        (
            (WORKLOAD, f"{WORKLOAD}, image: 'registry.example.com/a:1', command: [torchrun train.py]"),
            "teams[0].workloads[0].command",
            'write command: ["torchrun", "train.py"]',
        ),
        (
            (WORKLOAD, f"{WORKLOAD}, queue: default"),
            "teams[0].workloads[0].queue",
            "remove it",
        ),
        (("memory: 2Ti", "memory: 3TB"), "teams[0].quota.memory", "write 3T"),
        (("memory: 2Ti", "memory: 64 GiB"), "teams[0].quota.memory", "write 64Gi"),
        (("memory: 2Ti", "memory: 64"), "teams[0].quota.memory", "write 64Gi"),
        (("memory: 2Ti", 'memory: "1e308"'), "teams[0].quota.memory", "for example, write 2Ti"),
        (("cpu: 200", 'cpu: "1e308"'), "teams[0].quota.cpu", "for example, write 200, or 500m for half a CPU"),
        (
            (
                "level: mandatory",
                "level: mandatory, rules: {gpu-node-taint: {exempt: "
                "[{resource: a, reason: b, owner: c, until: 31.12.2026}]}}",
            ),
            "policy.rules.gpu-node-taint.exempt[0].until",
            "write 2026-12-31",
        ),
        (("timeout: 5m", "timeout: 99999h"), "validation.timeout", "for example, write 24h"),
        (("timeout: 5m", "timeout: 900h"), "validation.timeout", "write 24h, or less"),
        (('["group:vision"]', '["group:vision", "group:vision"]'), "teams[0].members[1]", "remove it"),
        (("name: local", f"name: {'n' * 43}"), "cluster.name", "shorten it to 42 characters"),
        (("{mode: time-slicing, ", "{mod: time-slicing, "), "pools[1].sharing.mod", "did you mean 'mode'?"),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_a_mistake_is_reported_once_with_a_fix_for_its_field(
    tmp_path: Path, change: tuple[str, str], path: str, fix: str
) -> None:
    problems = _problems(tmp_path, change)
    own = [problem for problem in problems if problem.path == path]
    assert [problem.fix for problem in own] == [fix]
    if path != "cluster.provider":  # a cluster of another provider needs other fields, which are reported too
        assert len(problems) == 1, problems


@pytest.mark.parametrize(
    ("change", "path", "fix"),
    [
        (
            ("workload: training", "workload: training\n        network: {profile: true}"),
            "pools[0].network.profile",
            "remove it",
        ),
        (
            (
                "    pools:",
                "    storage: {old: {type: existing, system: lustre, file_system: fs-0a1b2c3d}}\n    pools:",
            ),
            "storage.old.system",
            "write fsx-lustre or managed-lustre",
        ),
        (
            (
                '["group:vision"]',
                '["group:vision"]\n        ray_clusters: [{name: r, image: "a.example/b:1", version: "2.49.0", '
                "head: {gpus: 1}, workers: [{name: w, pool: train, gpus: 1}]}]",
            ),
            "teams[0].ray_clusters[0].head.gpus",
            "remove it",
        ),
    ],
    ids=[
        "a value that the similar key does not allow",
        "a word in two allowed values",
        "a number that a neighbouring object allows",
    ],
)
def test_no_fix_names_what_fits_by_chance(tmp_path: Path, change: tuple[str, str], path: str, fix: str) -> None:
    problems = _problems(tmp_path, change)
    assert [problem.fix for problem in problems if problem.path == path] == [fix]


BLOCK = {"reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a", "starts": "2026-12-01T11:30:00Z"}
OWN_ROLE = {"name": "a", "quota": {"gpus": 1}, "priority": "training", "members": ["group:a"]}


@pytest.mark.parametrize(
    ("capacity", "rest", "path"),
    [
        ({"blocks": [BLOCK]}, {}, "pools[0].capacity.blocks[0].ends"),
        ({"blocks": [{**BLOCK, "ends": "tomorrow"}]}, {}, "pools[0].capacity.blocks[0].ends"),
        ({"blocks": []}, {}, "pools[0].capacity.blocks"),
        ({**BLOCK, "zone": "us-east-2"}, {}, "pools[0].capacity.zone"),
        ({}, {}, "pools[0].capacity"),
        (BLOCK, {"teams": [{**OWN_ROLE, "identity": {"role_arn": "vision"}}]}, "teams[0].identity.role_arn"),
    ],
    ids=["no end", "an end that is not a time", "no block", "a region", "neither", "a role that is not an ARN"],
)
def test_a_wrong_value_is_not_also_reported_as_missing(
    capacity: dict[str, Any], rest: dict[str, Any], path: str
) -> None:
    with pytest.raises(BadInput) as caught:
        plan_eks({"capacity": {"type": "capacity-block", **capacity}}, **rest)
    [problem] = caught.value.problems
    assert problem.path == path
    if path.endswith("ends"):
        assert problem.allowed == "a time with its time zone, such as 2026-12-14T11:30:00Z"
        assert "ends: 2026-12-14T11:30:00Z" in problem.fix


def test_an_unknown_pool_is_reported_beside_values_of_another_type(tmp_path: Path) -> None:
    problems = _problems(
        tmp_path,
        ("pool: train, gpus: 4, replicas: 2", "pool: training, gpus: 4, replicas: two"),
        ("count: {desired: 2}", "count: 2"),
        ("cpu: 16, memory: 128Gi", 'cpu: 16, memory: 128Gi, image: "registry.example.com/a:1", command: sleep 1'),
    )
    assert [problem.path for problem in problems] == [
        "pools[0].count",
        "teams[0].workloads[0].pool",
        "teams[0].workloads[0].replicas",
        "teams[0].workloads[0].command",
    ]


def test_a_zone_instead_of_a_region_hides_no_other_mistake(tmp_path: Path) -> None:
    cluster = "cluster: {provider: eks, name: ml, region: us-west-2b, create: {admins: platform-admin}}"
    problems = _problems(tmp_path, ("cluster: {provider: sandbox, name: local}", cluster))
    fixes = {problem.path: problem.fix for problem in problems}
    assert fixes["cluster.region"] == "write us-west-2"
    assert fixes["cluster.create.admins"] == 'write admins: ["platform-admin"]'
    assert "arn:aws:iam::" in fixes["cluster.create.admins[0]"]


def test_a_stack_of_a_team_names_its_environment_as_the_text_that_was_written(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.base.yaml").write_text(LOCAL, "utf-8")
    fixes: list[str] = []
    for environment in ("base", "{stack: bsae}"):
        team = tmp_path / "Pulumi.team.yaml"
        team.write_text(
            f"config:\n  gpu-platform:platform:\n    kind: team\n    environment: {environment}\n    team:\n"
            "      {name: audio, quota: {gpus: 1}, priority: training, members: ['group:audio']}\n",
            "utf-8",
        )
        with pytest.raises(BadInput) as caught:
            load_stack(str(team))
        fixes += [problem.fix for problem in caught.value.problems]
    assert fixes == ["write environment: {stack: base}", "did you mean 'base'?"]


def test_a_stack_of_a_team_shows_unknown_names_beside_mistakes_of_form(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.base.yaml").write_text(LOCAL, "utf-8")
    team = tmp_path / "Pulumi.team.yaml"
    team.write_text(
        "config:\n  gpu-platform:platform:\n    kind: team\n    environment: {stack: base}\n    team:\n"
        "      name: Audio!\n      quota: {mig: {2g.20gb: 1}}\n      priority: trainin\n      members: [audio]\n"
        "      workloads: [{name: a, pool: trian, gpus: two}]\n",
        "utf-8",
    )
    with pytest.raises(BadInput) as caught:
        load_stack(str(team))
    assert [problem.path for problem in located(caught.value).problems] == [
        "team.name",
        "team.quota.mig.2g.20gb",
        "team.priority",
        "team.members[0]",
        "team.workloads[0].pool",
        "team.workloads[0].gpus",
    ]


def test_four_mistakes_of_four_kinds_are_reported_in_one_run(tmp_path: Path) -> None:
    problems = _problems(
        tmp_path,
        ("workload: training", "workload: trainin"),
        ("g4dn.xlarge", "g4dn.xlarg"),
        ("priority: inference", "priority: inferenc"),
        ("level: mandatory", "level: mandatory, rules: {gpu-node-tain: {}}"),
    )
    assert [problem.path for problem in problems] == [
        "pools[0].workload",
        "pools[1].machine_type",
        "teams[1].priority",
        "policy.rules.gpu-node-tain",
    ]


def test_quotas_are_checked_with_the_machine_type_that_a_misspelt_one_means(tmp_path: Path) -> None:
    problems = _problems(tmp_path, ("p4de.24xlarge", "p4de.24xlarg"), ("gpus: 12", "gpus: 120"))
    assert [problem.path for problem in problems] == ["pools[0].machine_type", "teams[0].quota.gpus"]


@pytest.mark.parametrize(
    "change",
    [
        ("memory: 2Ti", "memory: 3TB"),
        ("count: {desired: 2}", "count: 4"),
        ("workload: training", "workload: trainin"),
        ("sharing: {mode: time-slicing, replicas: 4}", "sharing: {mode: time-slicing, replicas: 400}"),
        ("machine_type: p4de.24xlarge", "machine_type: x9.metal"),
        ("name: vision", "name: Vision!"),
        ("name: train", "name: Train_A"),
    ],
    ids=lambda change: change[1],
)
def test_nothing_is_reported_that_follows_from_a_mistake(tmp_path: Path, change: tuple[str, str]) -> None:
    assert len(_problems(tmp_path, change)) == 1


def test_duplicate_keys_and_octal_numbers_do_not_hide_other_mistakes(tmp_path: Path) -> None:
    problems = _problems(
        tmp_path,
        ("count: {desired: 2}", "count: {desired: 010}"),
        ("workload: training", "workload: training\n        workload: inference"),
        ("level: mandatory", "level: warn"),
    )
    assert [problem.found.split(" (")[0] for problem in problems] == [
        "010, an octal number in YAML 1.1",
        "the key 'workload' twice",
        '"warn"',
    ]


def test_an_error_in_the_environment_of_a_team_names_the_file_of_the_environment(tmp_path: Path) -> None:
    environment = tmp_path / "Pulumi.base.yaml"
    environment.write_text(LOCAL.replace("p4de.24xlarge", "p4de.24xlarg", 1), "utf-8")
    team = tmp_path / "Pulumi.team.yaml"
    team.write_text(
        "config:\n  gpu-platform:platform:\n    kind: team\n    environment: {stack: base}\n    team:\n"
        "      name: audio\n      quota: {gpus: 1}\n      priority: training\n      members: ['group:audio']\n",
        "utf-8",
    )
    with pytest.raises(BadInput) as caught:
        load_stack(str(team))
    assert caught.value.source == str(environment)
    (problem,) = located(caught.value).problems
    assert (problem.path, problem.line) == ("pools[0].machine_type", 10)


def test_no_error_shows_messages_of_the_validation_library(tmp_path: Path) -> None:
    for file in sorted((Path(__file__).parent.parent / "broken_stacks").glob("Pulumi.*.yaml")):
        with pytest.raises(BadInput) as caught:
            load_stack(str(file))
        for words in ("Value error", "String should", "Input should", "pydantic"):
            assert words not in str(caught.value), file.name


@pytest.mark.parametrize(
    ("provider", "example"), [("eks", "cr-0a1b2c3d4e5f60718"), ("gke", "h100-pool"), ("aks", "/subscriptions/")]
)
def test_the_example_of_a_missing_reservation_is_of_the_stacks_provider(
    tmp_path: Path, provider: str, example: str
) -> None:
    [missing] = [
        one
        for one in _problems(
            tmp_path,
            ("provider: sandbox", f"provider: {provider}"),
            ("workload: training", "workload: training\n        capacity: {type: reservation, zone: a}"),
        )
        if one.path == "pools[0].capacity.reservation"
    ]
    assert example in missing.allowed
    assert example in missing.fix
