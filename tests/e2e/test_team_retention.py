"""Members' objects survive when a team leaves, when it returns, and when the whole stack is destroyed.

Most tests continue from the state that the previous test deployed, but each test can also run alone.
"""

from __future__ import annotations

import copy
import itertools
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from gpu_platform.base import names
from gpu_platform.live.client import Refused
from tests.e2e.conftest import SANDBOX, VALIDATION_TIMEOUT, Platform
from tests.e2e.members import PASSWORD, members_objects
from tests.e2e.transcripts import PLAIN, steady
from tests.support.eventually import eventually
from tests.support.team_policies import PREFIXES

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-retention")]

STACK: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "sandbox", "name": SANDBOX},
    "pools": [
        {"name": "train", "machine_type": "p4de.24xlarge", "count": {"desired": 1}, "workload": "training"},
    ],
    "teams": [
        {"name": "vision", "quota": {"gpus": 2}, "priority": "training", "members": ["group:vision"]},
        {
            "name": "perception",
            "quota": {"gpus": 4, "cpu": 60, "memory": "500Gi"},
            "priority": "training",
            "members": ["group:perception"],
            "workloads": [{"name": "pretrain", "pool": "train", "gpus": 1}],
        },
    ],
    "validation": {"timeout": VALIDATION_TIMEOUT},
}
TEAM = "perception"
MEMBERS_KINDS = (
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "Deployment"),
    ("v1", "Pod"),
    ("v1", "PersistentVolumeClaim"),
)


def volume_for(namespace: str, claim: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-{namespace}"},
        "spec": {
            "capacity": {"storage": "2Ti"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": namespace, "name": claim},
        },
    }


class Hand:
    """Deploys and changes a stack whose team `perception` has data."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.client = platform.client
        self.base = copy.deepcopy(STACK)

    def file(self) -> str:
        return str(self.platform.write(self.base))

    def up(self) -> Any:
        ran = self.platform.run("up", self.file(), "--engine", "embedded", "--format", "json")
        assert ran.code == 0, ran.err
        self.platform.state["shop"] = copy.deepcopy(self.base)
        return ran

    def run(self, *arguments: str) -> Any:
        return self.platform.run(*arguments)

    def leave(self) -> Any:
        self.base["teams"] = [team for team in self.base["teams"] if team["name"] != TEAM]
        return self.up()

    def find(self, api_version: str, kind: str, name: str) -> dict[str, Any]:
        found = self.client.get(api_version, kind, name, TEAM)
        assert found is not None, f"{kind} {name} is gone"
        return found

    def uids(self) -> dict[str, str]:
        """Return the UID of each of the members' objects, including pods."""
        made = [self.find(o["apiVersion"], o["kind"], o["metadata"]["name"]) for o in members_objects(TEAM)]
        pods = self.client.objects("v1", "Pod", namespace=TEAM, label_selector="app=features")
        return {live["metadata"]["name"]: live["metadata"]["uid"] for live in [*made, *pods]}

    def namespace(self) -> dict[str, Any]:
        found = self.client.get("v1", "Namespace", TEAM)
        assert found is not None, "the namespace is gone"
        return found

    def have_data(self) -> dict[str, str]:
        for manifest in members_objects(TEAM):
            self.client.create(manifest)
        eventually(lambda: self._running() == 2)
        return self.uids()

    def _running(self) -> int:
        pods = self.client.objects("v1", "Pod", namespace=TEAM, label_selector="app=features")
        return sum(pod["status"].get("phase") == "Running" for pod in pods)

    def live_policies(self) -> list[dict[str, Any]]:
        """Return the admission policies of the team and their bindings."""
        return [
            live
            for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
            for live in self.client.objects(
                "admissionregistration.k8s.io/v1", kind, label_selector=f"{names.TEAM_LABEL}={TEAM}"
            )
        ]

    def policies(self) -> set[tuple[str, str]]:
        """Return the kinds and names of the team's admission policies and bindings."""
        return {(live["kind"], live["metadata"]["name"]) for live in self.live_policies()}

    def gone(self, api_version: str, kind: str, name: str, namespace: str = TEAM) -> bool:
        return self.client.get(api_version, kind, name, namespace) is None

    def is_deployed(self) -> bool:
        """Return whether the base stack is still deployed, with or without the team's data."""
        return self.platform.state.get("shop") == self.base

    def stays_deployed(self) -> None:
        """Record that the commands since the last deployment changed only other stacks."""
        self.platform.state["shop"] = copy.deepcopy(self.base)

    def is_retained(self) -> bool:
        """Return whether the team has left and its members' objects still exist."""
        live = self.client.get("v1", "Namespace", TEAM) or {"metadata": {}}
        if live["metadata"].get("labels", {}).get(names.RETAINED_LABEL) != "true":
            return False
        return "deletionTimestamp" not in live["metadata"] and self.has_data()

    def has_data(self) -> bool:
        """Return whether the members' claim exists and one or both of their pods run."""
        return len(self.claims()) == 1 and self._running() in (1, 2)

    def claims(self) -> list[dict[str, Any]]:
        return list(self.client.objects("v1", "PersistentVolumeClaim", namespace=TEAM))

    def forget_data(self) -> None:
        """Delete the members' objects, and wait until they are gone. A StatefulSet is deleted after its pods."""
        named = [(m["apiVersion"], m["kind"], m["metadata"]["name"], TEAM) for m in members_objects(TEAM)]
        for one in named:
            if (live := self.client.get(*one)) is not None:
                self.client.delete(live)
        pods = {"namespace": TEAM, "label_selector": "app=features"}
        eventually(lambda: not list(self.client.objects("v1", "Pod", **pods)))
        eventually(lambda: all(self.client.get(*one) is None for one in named))

    def forget_team(self) -> None:
        """Delete the team's namespace with all its contents."""
        for live in self.client.objects("v1", "Namespace", label_selector=f"{names.TEAM_LABEL}={TEAM}"):
            self.client.delete(live)
            # Kubernetes empties a namespace after 5 s, and checks again 5 s later if pods are still ending.
            for kind in MEMBERS_KINDS:
                for content in self.client.objects(*kind, namespace=TEAM):
                    self.client.delete(content)
        eventually(lambda: self.client.get("v1", "Namespace", TEAM) is None)


@pytest.fixture
def hand(platform: Platform) -> Hand:
    """The deployed stack without data. The stack is deployed again if another test changed it."""
    hand = Hand(platform)
    if hand.is_deployed():
        hand.forget_data()
    else:
        hand.forget_team()
        hand.up()
    hand.file()
    return hand


@pytest.fixture
def with_data(platform: Platform) -> Hand:
    """The deployed stack with data. The stack is deployed again if another test changed it."""
    hand = Hand(platform)
    deployed = platform.state.get("shop", {"teams": []})
    if any(team["name"] == TEAM for team in deployed["teams"]) and hand.has_data():
        hand.base = copy.deepcopy(deployed)
        eventually(lambda: hand._running() == 2)
    else:
        hand.forget_team()
        hand.up()
        hand.have_data()
    hand.file()
    return hand


@pytest.fixture
def retained(platform: Platform) -> Hand:
    """The stack without the team, whose data is kept. The stack is deployed again if another test changed it."""
    hand = Hand(platform)
    if not hand.is_retained():
        if not (hand.platform.state.get("shop") and hand.has_data()):
            hand.forget_team()
            hand.up()
            hand.have_data()
        hand.leave()
    hand.base["teams"] = [team for team in hand.base["teams"] if team["name"] != TEAM]
    hand.file()
    return hand


@pytest.mark.parametrize("in_file", [True, False])
def test_team_remove_refuses_a_team_that_is_deployed(hand: Hand, in_file: bool) -> None:
    if not in_file:
        hand.base["teams"].pop()
    ran = hand.run("team", "remove", hand.file(), TEAM, "--confirm", TEAM, "--delete-claims")
    assert ran.code == 2
    assert "nothing was changed" in ran.err
    assert hand.client.get("v1", "Namespace", TEAM) is not None


def test_team_remove_names_the_retained_namespaces_for_a_name_that_is_none(hand: Hand) -> None:
    ran = hand.run("team", "remove", hand.file(), "kube-system", "--confirm", "kube-system")
    assert ran.code == 2
    assert hand.client.get("v1", "Namespace", "kube-system") is not None


def test_destroy_without_a_terminal_and_without_yes_lists_and_touches_nothing(hand: Hand) -> None:
    before = hand.have_data()
    ran = hand.run("destroy", hand.file(), "--engine", "embedded")
    assert ran.code == 2
    assert "--yes" in ran.err
    assert "pool train: 1 node with 8 GPUs" in ran.out
    assert "namespace perception: retained" in ran.out
    assert "PersistentVolumeClaim: dataset (2Ti, not bound)" in ran.out
    assert "namespace vision: deleted" in ran.out
    assert hand.uids() == before
    assert hand.client.get("v1", "Node", "train-0") is not None
    hand.find("apps/v1", "Deployment", "pretrain")
    hand.stays_deployed()


def test_quotas_of_all_stacks_are_added_up(hand: Hand) -> None:
    def team_stack(name: str, gpus: int) -> str:
        team = {"name": name, "quota": {"gpus": gpus}, "priority": "training", "members": [f"group:{name}"]}
        platform = {"kind": "team", "environment": {"stack": "shop"}, "team": team}
        return str(hand.platform.write(platform, name))

    file = team_stack("speech", 2)
    assert hand.run("up", file, "--engine", "embedded").code == 0
    try:
        for command in ("preview", "up"):
            ran = hand.run(command, team_stack("audio", 1), "--engine", "embedded")
            assert ran.code == 2
            shares = "(perception 4, speech 2, vision 2, audio 1)"
            assert f"9 nvidia.com/gpu in the quotas of all stacks {shares}" in ran.err
        assert hand.client.get("v1", "Namespace", "audio") is None
        hand.base["teams"][0]["quota"]["gpus"] = 3
        ran = hand.run("preview", hand.file(), "--engine", "embedded")
        assert ran.code == 2
        assert "9 nvidia.com/gpu" in ran.err
        shown = hand.run("capacity", hand.file(), "--deployed")
        assert "nvidia.com/gpu: 9 of 8 allocated, including the deployed team stacks (speech 2)" in shown.out
    finally:
        hand.base["teams"][0]["quota"]["gpus"] = 2
        hand.file()
        assert hand.run("destroy", file, "--engine", "embedded", "--yes").code == 0
    hand.stays_deployed()


def test_destroy_refuses_while_stacks_of_teams_are_deployed_and_names_them(hand: Hand) -> None:
    team = {
        "kind": "team",
        "environment": {"stack": "shop"},
        "team": {"name": "speech", "quota": {"gpus": 1}, "priority": "training", "members": ["group:speech"]},
    }
    file = str(hand.platform.write(team, "speech"))
    hand.file()
    assert hand.run("up", file, "--engine", "embedded").code == 0
    try:
        ran = hand.run("destroy", hand.file(), "--engine", "embedded", "--yes", "--delete-data")
        assert ran.code == 2
        assert "speech (namespace speech)" in ran.err
        assert hand.client.get("v1", "Node", "train-0") is not None
    finally:
        assert hand.run("destroy", file, "--engine", "embedded", "--yes").code == 0
    assert hand.client.get("v1", "Namespace", "speech") is None
    hand.stays_deployed()


def test_destroy_keeps_what_members_made_and_names_it(hand: Hand) -> None:
    before = hand.have_data()
    ran = hand.run("destroy", hand.file(), "--engine", "embedded", "--yes", "--format", "json")
    assert ran.code == 0, ran.err
    assert "namespace perception: retained" in ran.err
    assert {one["team"]: one["fate"] for one in ran.json["namespaces"]} == {
        "perception": "retained",
        "vision": "deleted",
    }
    [retained] = ran.json["retained"]
    assert (retained["team"], retained["from"], retained["kinds"]["PersistentVolumeClaim"]) == (
        "perception",
        "shop",
        1,
    )
    assert retained["remove"] == f"gpu-platform team remove {hand.file()} perception"
    assert ran.json["changes"]["counts"]["delete"] > 0
    kept = hand.uids()
    assert {name: kept[name] for name in ("dataset", "token", "features")} == {
        name: before[name] for name in ("dataset", "token", "features")
    }
    assert hand.client.get("v1", "Namespace", "vision") is None
    assert list(hand.client.objects("v1", "Node")) == []
    assert names.RETAINED_LABEL in hand.namespace()["metadata"]["labels"]
    assert len(hand.policies()) == 14

    again = hand.run("destroy", hand.file(), "--engine", "embedded", "--yes")
    assert "stack shop is not deployed, so it has nothing to destroy" in again.out
    assert "namespace perception is retained from stack shop" in again.out
    removal = hand.run("team", "remove", hand.file(), TEAM, "--dry-run")
    assert (removal.code, "retained from stack shop" in removal.out) == (0, True), removal.err

    back = hand.up()
    assert "team perception returns" in back.err
    assert names.RETAINED_LABEL not in hand.namespace()["metadata"]["labels"]
    assert hand.uids()["dataset"] == before["dataset"]


def test_a_team_leaves_and_what_members_made_stays_without_the_platforms_objects(hand: Hand) -> None:
    before = hand.have_data()
    hand.base["teams"].pop()
    previewed = hand.run("preview", hand.file(), "--engine", "embedded", "--format", "json")
    assert "namespace perception is retained with 1 volume claim (2 TiB), 1 StatefulSet, 1 Secret, 2 pods" in (
        previewed.err
    )
    assert f"`gpu-platform team remove {hand.file()} perception`" in previewed.err
    [change] = previewed.json["team_changes"]
    assert (change["team"], change["fate"]) == (TEAM, "retained")
    planned = {(c["action"], c["kind"], c["name"]) for c in previewed.json["changes"]["changes"]}
    assert ("retain", "Namespace", TEAM) in planned

    ran = hand.up()

    assert {(c["action"], c["kind"], c["name"]) for c in ran.json["changes"]["changes"]} == planned
    assert hand.uids() == before
    assert hand.gone("rbac.authorization.k8s.io/v1", "RoleBinding", "team-members")
    assert hand.gone("rbac.authorization.k8s.io/v1", "Role", "team-member")
    assert hand.gone("apps/v1", "Deployment", "pretrain")
    metadata = hand.namespace()["metadata"]
    assert metadata["labels"][names.RETAINED_LABEL] == "true"
    assert metadata["labels"][names.TEAM_LABEL] == TEAM
    assert metadata["annotations"][names.RETAINED_FROM_ANNOTATION] == "shop"
    assert metadata["annotations"][names.RETAINED_SINCE_ANNOTATION].endswith("Z")
    assert "applyset.kubernetes.io/part-of" not in metadata["labels"]


def test_a_retained_namespace_stays_isolated_and_gets_no_new_gpu_pod(retained: Hand) -> None:
    policies = retained.client.objects("networking.k8s.io/v1", "NetworkPolicy", namespace=TEAM)
    assert {policy["metadata"]["name"] for policy in policies} == {
        "default-deny",
        "allow-own-namespace",
        "allow-dns",
        "allow-declared",
    }
    assert retained.namespace()["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    number = itertools.count()

    def is_refused() -> bool:
        try:  # pods are admitted until the quota has its first status
            retained.platform.pod(f"late-{next(number)}", "nvidia.com/gpu", namespace=TEAM)
        except Refused as refusal:
            return "exceeded quota: retained" in str(refusal)
        return False

    eventually(is_refused)

    retained.platform.pod("tidy", "cpu", tolerate=False, namespace=TEAM)


def test_a_retained_namespace_refuses_what_the_teams_rules_refused(retained: Hand) -> None:
    assert retained.policies() == {
        (kind, f"{prefix}-{TEAM}")
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        for prefix in PREFIXES
    }
    with pytest.raises(Refused, match=f"pods-of-{TEAM}.*gpu-wildcard-toleration"):
        retained.platform.pod("intruder", "cpu", namespace=TEAM)
    with pytest.raises(Refused, match=f"services-of-{TEAM}.*service-external-address"):
        retained.client.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "catcher", "namespace": TEAM},
                "spec": {"ports": [{"port": 80}], "externalIPs": ["203.0.113.7"]},
            }
        )


def test_another_up_does_not_change_a_retained_namespace(retained: Hand) -> None:
    before = retained.uids()
    since = retained.namespace()["metadata"]["annotations"]

    assert retained.up().json["changes"]["changes"] == []
    assert retained.uids() == before
    assert retained.namespace()["metadata"]["annotations"] == since


def test_a_namespace_retained_from_another_stack_is_not_adopted(retained: Hand) -> None:
    before = retained.uids()
    policies = retained.policies()
    thief = {
        "kind": "team",
        "environment": {"stack": "shop"},
        "team": {"name": TEAM, "quota": {"gpus": 1}, "priority": "training", "members": ["group:thief"]},
    }
    for command in ("preview", "up"):
        ran = retained.run(command, str(retained.platform.write(thief, "thief")), "--engine", "embedded")
        assert ran.code == 1
        assert "retained from stack 'shop'" in ran.err
        assert f"{names.RETAINED_FROM_ANNOTATION}=thief" in ran.err
    assert retained.uids() == before
    assert retained.gone("rbac.authorization.k8s.io/v1", "RoleBinding", "team-members")
    assert retained.policies() == policies
    assert all(names.RETAINED_LABEL in live["metadata"]["labels"] for live in retained.live_policies())


def test_a_team_that_returns_finds_its_data_and_gets_its_rights_and_quota_back(retained: Hand) -> None:
    before = retained.uids()
    retained.base = copy.deepcopy(STACK)
    retained.base["teams"][1]["quota"]["gpus"] = 5
    previewed = retained.run("preview", retained.file(), "--engine", "embedded")
    assert previewed.code == 0, previewed.err
    assert "team perception returns: its retained namespace perception is adopted" in previewed.err

    retained.up()

    assert retained.uids() == before
    metadata = retained.namespace()["metadata"]
    assert names.RETAINED_LABEL not in metadata["labels"]
    assert not {name for name in metadata.get("annotations", {}) if "retained" in name}
    assert retained.gone("v1", "ResourceQuota", names.RETAINED_QUOTA)
    quota = retained.find("v1", "ResourceQuota", "gpu-quota")
    assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "5"
    assert names.RETAINED_LABEL not in quota["metadata"].get("labels", {})
    retained.find("rbac.authorization.k8s.io/v1", "RoleBinding", "team-members")
    assert len(retained.policies()) == 14
    for live in retained.live_policies():
        assert names.RETAINED_LABEL not in live["metadata"]["labels"]
        assert "applyset.kubernetes.io/part-of" in live["metadata"]["labels"]
    assert retained.up().json["changes"]["changes"] == []


def test_a_rename_is_recognised_and_the_data_stays_under_the_old_name(with_data: Hand) -> None:
    hand, before = with_data, with_data.uids()
    hand.base["teams"][1]["name"] = "sight"
    previewed = hand.run("preview", hand.file(), "--engine", "embedded", "--format", "json")
    assert previewed.json["team_changes"][0]["renamed_to"] == "sight"
    assert "team perception → sight looks like a rename" in previewed.err

    hand.up()
    assert hand.uids() == before


def test_a_gpu_pod_that_ends_in_a_retained_namespace_is_not_made_again(retained: Hand) -> None:
    old = next(iter(retained.client.objects("v1", "Pod", namespace=TEAM, label_selector="app=features")))
    retained.client.delete(old)

    def refusals() -> list[str]:
        found = retained.client.objects("v1", "Event", namespace=TEAM, field_selector="reason=FailedCreate")
        return [event["message"] for event in found if "exceeded quota: retained" in event["message"]]

    eventually(refusals)
    eventually(retained._running, expected=1)  # the deleted pod keeps running until it has terminated


def test_team_remove_lists_exports_and_deletes_after_the_teams_name(retained: Hand, tmp_path: Path) -> None:
    before = retained.uids()
    file, export = retained.file(), tmp_path / "perception.yaml"

    listed = retained.run("team", "remove", file, TEAM, "--dry-run", "--format", "json")
    assert listed.code == 0, listed.err
    assert listed.json["claims"] == [{"name": "dataset", "size": "2Ti", "volume": "", "reclaim_policy": ""}]
    assert listed.json["kinds"] == {"PersistentVolumeClaim": 1, "StatefulSet.apps": 1, "Secret": 1}
    assert listed.json["pods"] == retained._running()
    assert PASSWORD not in listed.out

    silent = retained.run("team", "remove", file, TEAM)
    assert silent.code == 2
    assert "Secret: token" in silent.out
    assert "--confirm perception" in silent.err
    wrong = retained.run("team", "remove", file, TEAM, "--confirm", "vision", "--format", "json")
    assert wrong.code == 2
    assert wrong.json["problems"][0]["path"] == "--confirm"
    assert retained.uids() == before

    ran = retained.run("team", "remove", file, TEAM, "--confirm", TEAM, "--export", str(export))
    assert ran.code == 0, ran.err
    assert retained.client.get("v1", "Namespace", TEAM) is None
    assert retained.policies() == set()
    assert stat.S_IMODE(export.stat().st_mode) == 0o600
    manifests = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(export.read_text())}
    assert sorted(manifests) == ["PersistentVolumeClaim", "Secret", "StatefulSet"]
    assert "data" not in manifests["Secret"]
    for manifest in manifests.values():
        assert not {"status", "managedFields", "uid"} & {*manifest, *manifest["metadata"]}


def test_team_remove_refuses_bound_claims_until_told(hand: Hand, snapshot: SnapshotAssertion) -> None:
    hand.platform.env = PLAIN
    hand.have_data()
    volume = volume_for(TEAM, "dataset")
    hand.client.create(volume)
    eventually(lambda: hand.find("v1", "PersistentVolumeClaim", "dataset")["status"]["phase"] == "Bound")
    hand.leave()
    try:
        refused = hand.run("team", "remove", hand.file(), TEAM, "--confirm", TEAM)
        assert refused.code == 2
        assert "dataset (2Ti, volume volume-perception is kept)" in refused.err
        assert "--delete-claims" in refused.err
        hand.find("v1", "PersistentVolumeClaim", "dataset")

        ran = hand.run("team", "remove", hand.file(), TEAM, "--confirm", TEAM, "--delete-claims")
        assert ran.code == 0, ran.err
        assert hand.client.get("v1", "Namespace", TEAM) is None
        assert "\n".join(steady(hand.platform, one.out + one.err) for one in (refused, ran)) == snapshot
    finally:
        live = hand.client.get("v1", "PersistentVolume", "volume-perception")
        assert live is not None
        hand.client.delete(live)


def test_a_team_without_objects_of_members_is_deleted_with_its_namespace(hand: Hand) -> None:
    hand.base["teams"].pop()
    previewed = hand.run("preview", hand.file(), "--engine", "embedded", "--format", "json")
    assert previewed.json["team_changes"][0]["fate"] == "deleted"
    hand.up()
    assert hand.client.get("v1", "Namespace", TEAM) is None
    assert hand.policies() == set()


def test_destroy_with_delete_data_deletes_what_members_made(hand: Hand) -> None:
    hand.have_data()
    refused = hand.run("destroy", hand.file(), "--engine", "embedded", "--delete-data")
    assert refused.code == 2
    assert "--yes --delete-data" in refused.err
    ran = hand.run("destroy", hand.file(), "--engine", "embedded", "--yes", "--delete-data")
    assert ran.code == 0, ran.err
    assert hand.client.get("v1", "Namespace", TEAM) is None
    assert hand.policies() == set()
