"""`gpu-platform place` as a user calls it, without a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import Run

PODS = """\
pods:
  - {name: pretrain, team: vision, pool: train, requests: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}
  - {name: sweep, team: vision, count: 3, requests: {cpu: 30, memory: 64Gi, nvidia.com/gpu: 2}}
  - {name: chat, team: search, count: 5, requests: {nvidia.com/gpu.shared: 1, cpu: 500m, memory: 2Gi}}
  - {name: labs, team: vision, count: 20, requests: {nvidia.com/mig-1g.10gb: 1}}
"""

MANIFESTS = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: vision}
spec:
  parallelism: 2
  template:
    spec:
      containers: [{name: main, resources: {limits: {nvidia.com/gpu: 6, cpu: 20, memory: 100Gi}}}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: search}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: search}
spec:
  replicas: 3
  template:
    spec:
      containers: [{name: main, resources: {limits: {nvidia.com/gpu.shared: 1}}}]
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        Path("pods.yaml").write_text(text, "utf-8")
        return "pods.yaml"

    return write


def test_the_report_is_the_one_that_was_reviewed(
    run: Run, write: Callable[[str], str], snapshot: SnapshotAssertion
) -> None:
    ran = run("place", "local", "--workloads", write(PODS))
    assert ran.code == 1
    assert ran.out == snapshot


def test_manifests_get_team_defaults_and_the_command_passes_if_all_fit(
    run: Run, write: Callable[[str], str]
) -> None:
    ran = run("place", "local", "--workloads", write(MANIFESTS), "--format", "json")
    assert ran.code == 0, ran.err
    train, web = ran.json["groups"]
    assert (train["priority_class"], train["placed"], train["nodes"]) == (
        "training",
        2,
        {"train-0": 1, "train-1": 1},
    )
    # The pod requests a quarter of the node's GPU.
    # The pod therefore gets a quarter of (3920m - 500m) CPU and a quarter of 90 % of 15710 MiB.
    assert web["requests"] == {"nvidia.com/gpu.shared": "1", "cpu": "967m", "memory": "3534Mi"}
    assert ran.json["pending"] == []


def test_every_mistake_of_a_pods_file_is_reported(run: Run, write: Callable[[str], str]) -> None:
    ran = run(
        "place",
        "local",
        "--workloads",
        write(
            "pods:\n"
            "  - {name: a, team: visoin, requests: {nvidia.com/gpu: 1}}\n"
            "  - {name: b, team: vision, pool: trian, priority: inference}\n"
        ),
    )
    assert ran.code == 2
    assert "3 problems" in ran.err
    for part in (
        "pods[0].team",
        "did you mean 'vision'?",
        "pods[1].pool",
        "did you mean 'train'?",
        "pods[1].priority",
    ):
        assert part in ran.err


def test_an_unknown_team_and_pool_are_reported_beside_values_of_a_wrong_form(
    run: Run, write: Callable[[str], str]
) -> None:
    pods = "pods:\n  - {name: a, team: vison, pool: trian, count: 0}\n  - {name: b, team: serch, requests: []}\n"
    code, _, err = run("place", "local", "--workloads", write(pods))
    assert code == 2
    places = re.findall(r"  - line (\d), column \d+: (pods\[\d\]\.\w+):", err)
    assert sorted(places) == [
        ("2", "pods[0].count"),
        ("2", "pods[0].pool"),
        ("2", "pods[0].team"),
        ("3", "pods[1].requests"),
        ("3", "pods[1].team"),
    ]


def test_a_mistake_of_a_second_manifest_has_its_own_line(run: Run, write: Callable[[str], str]) -> None:
    text = MANIFESTS.replace("metadata: {name: web, namespace: search}\nspec", "metadata: {name: web}\nspec")
    code, _, err = run("place", "local", "--workloads", write(text))
    line = text[: text.index("metadata: {name: web}\nspec")].count("\n") + 1
    assert code == 2
    assert f"  - line {line}, column" in err


def test_every_mistake_of_manifests_is_reported(run: Run, write: Callable[[str], str]) -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  priorityClassName: trainin
  containers: [{name: main, resources: {requests: {cpu: lots}}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: b, namespace: vision}
spec: {template: {spec: {containers: [{name: main}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: c, namespace: vision}
spec: {parallelism: -1, template: {spec: {containers: main}}}
"""
    ran = run("place", "local", "--workloads", write(text))
    assert ran.code == 2
    for part in (
        "document 1.metadata.namespace: found nothing",
        "document 1.spec.priorityClassName: found 'trainin'",
        'document 1.spec.containers[0].resources.requests.cpu: found "lots"',
        "document 2.kind: found 'DaemonSet'",
        "document 3.spec.parallelism: found -1",
        'document 3.spec.template.spec.containers: found "main"',
    ):
        assert part in ran.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workloads: []\n", "an input for `capacity suggest`"),
        ("pods: []\n", "pods"),
        ("- a\n", "Kubernetes manifests"),
        ("", "no pods"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", "no pods"),
    ],
)
def test_a_file_without_pods_is_refused(run: Run, write: Callable[[str], str], text: str, said: str) -> None:
    ran = run("place", "local", "--workloads", write(text))
    assert ran.code == 2
    assert said in ran.err


def test_neither_a_file_nor_a_cluster_is_refused(run: Run) -> None:
    ran = run("place", "local")
    assert ran.code == 2
    assert "--live" in ran.err


def test_a_stack_of_a_team_is_refused_with_the_environment_to_name(run: Run, write: Callable[[str], str]) -> None:
    ran = run("place", "speech", "--workloads", write(PODS))
    assert ran.code == 2
    assert "gpu-platform place local" in ran.err


def test_the_profile_packed_leaves_whole_nodes_to_large_pods(run: Run, write: Callable[[str], str]) -> None:
    """The default profile places one pod with two GPUs on each node, so no node has room for seven."""
    pods = """\
pods:
  - {name: small, team: vision, pool: train, count: 2, requests: {cpu: 24, memory: 280Gi, nvidia.com/gpu: 2}}
  - {name: large, team: vision, pool: train, requests: {cpu: 80, memory: 1000Gi, nvidia.com/gpu: 7}}
"""
    found = {}
    for profile in ("default", "packed"):
        ran = run("place", "local", "--workloads", write(pods), "--profile", profile, "--format", "json")
        found[profile] = (ran.code, ran.json["summary"]["placed"])
        placed = {one["name"]: one["placed"] for one in ran.json["profiles"]}
        assert (placed["default"], placed["packed"]) == (2, 3)
    assert found == {"default": (1, 2), "packed": (0, 3)}


GKE = """\
config:
  gpu-platform:platform:
    kind: environment
    cluster:
      provider: gke
      name: packs
      project: my-project
      location: us-central1
      create: {authenticator_groups: gke-security-groups@example.com}
    pools:
      - {name: a3, machine_type: a3-megagpu-8g, count: {desired: 2}, zones: [us-central1-a], workload: inference}
    teams:
      - {name: vision, quota: {gpus: 16}, priority: training, members: ["group:vision@example.com"]}
"""


def test_pods_are_placed_by_the_scheduler_of_the_planned_cluster(
    run: Run, tmp_path: Path, write: Callable[[str], str]
) -> None:
    stack = tmp_path / "Pulumi.packs.yaml"
    stack.write_text(GKE, "utf-8")
    pods = """\
pods:
  - {name: small, team: vision, pool: a3, count: 4, requests: {cpu: 4, memory: 32Gi, nvidia.com/gpu: 1}}
  - {name: large, team: vision, pool: a3, requests: {cpu: 80, memory: 900Gi, nvidia.com/gpu: 8}}
"""
    packed = run("place", str(stack), "--workloads", write(pods), "--format", "json")
    assert (packed.code, packed.json["profile"]) == (0, "most-allocated")
    assert any("OPTIMIZE_UTILIZATION" in one for one in packed.json["assumptions"])
    spread = run("place", str(stack), "--workloads", write(pods), "--profile", "default", "--format", "json")
    assert spread.json["summary"]["pending"] == 1


@pytest.mark.parametrize(("stack", "words"), [("speech", "scheduler-config local"), ("Pulumi.dra.yaml", "DRA")])
def test_a_stack_without_resources_of_gpus_has_no_profile(
    run: Run, tmp_path: Path, stack: str, words: str
) -> None:
    (tmp_path / "Pulumi.dra.yaml").write_text(DRA, "utf-8")
    ran = run("scheduler-config", str(tmp_path / stack) if "." in stack else stack)
    assert (ran.code, words in ran.err) == (2, True), ran.err


def test_claims_that_are_not_simulated_are_named_and_whole_gpus_are_placed(
    run: Run, write: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "Pulumi.dra.yaml").write_text(DRA, "utf-8")
    ran = run("place", "Pulumi.dra.yaml", "--workloads", write(CLAIMS), "--format", "json")
    assert ran.code == 1, ran.err
    assert [(one["name"], one["placed"], one["pending"]) for one in ran.json["groups"]] == [("whole", 4, 1)]
    assert [one["name"] for one in ran.json["skipped"]] == ["vision/part"]
    assert (
        "0 of gpu.nvidia.com.deviceclass.resource.k8s.io/devices left, but a pod requests 4"
        in ran.json["pending"][0]["reasons"][0]["text"]
    )


DRA = """\
config:
  gpu-platform:platform:
    kind: environment
    cluster: {provider: sandbox}
    pools:
      - {name: train, machine_type: p4de.24xlarge, count: {desired: 2}, workload: training, sharing: {mode: dra}}
    teams:
      - name: vision
        quota: {devices: {gpu.nvidia.com: 16}}
        priority: training
        members: ["group:vision"]
        claims:
          - {name: four, count: 4}
          - {name: same, count: 1, product: A100-SXM4-80GB}
"""
CLAIMS = """\
apiVersion: batch/v1
kind: Job
metadata: {name: whole, namespace: vision}
spec:
  parallelism: 5
  template:
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      resourceClaims: [{name: gpus, resourceClaimTemplateName: four}]
      containers: [{name: main, resources: {requests: {cpu: 1, memory: 1Gi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: part, namespace: vision}
spec:
  resourceClaims: [{name: gpus, resourceClaimTemplateName: same}]
  containers: [{name: main, resources: {requests: {cpu: 1, memory: 1Gi}}}]
"""


# -- the page --------------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """Counts elements, and checks that each opened element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.links.extend(str(value) for name, value in attrs if name in {"src", "href"})
        if tag not in {"meta", "rect", "line"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"rect", "line"}:
            assert self.open.pop() == tag


def test_the_page_shows_each_kind_of_node_once_with_its_gpus(run: Run, write: Callable[[str], str]) -> None:
    ran = run("place", "local", "--workloads", write(PODS), "--format", "html")
    page = _Page()
    page.feed(ran.out)
    assert page.open == []
    assert "script" not in page.counts
    assert page.links == []
    # train-0 and train-1 differ, the two nodes of pool serve are equal, and pool notebooks has one node.
    assert page.counts["svg"] == 4
    assert page.counts["g"] == 8 + 8 + 1 + 8
    assert "2 equal nodes: serve-0, serve-1" in ran.out
    # The drawing has a margin of one unit for the outlines of its outermost boxes.
    ends = [float(width) - 1 for width in re.findall(r'viewBox="-1 -1 ([\d.]+) ', ran.out)]
    rights = [
        float(x) + float(w) for x, w in re.findall(r'<rect[^>]* x="([\d.]+)"[^>]* width="([\d.]+)"', ran.out)
    ]
    assert max(rights) < min(ends)


def test_what_a_file_names_cannot_become_html(run: Run, write: Callable[[str], str]) -> None:
    text = MANIFESTS.replace("name: train", 'name: "<b>train&"')
    ran = run("place", "local", "--workloads", write(text), "--format", "html")
    assert "<b>" not in ran.out
    assert "&lt;b&gt;train&amp;" in ran.out
