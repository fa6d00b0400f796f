"""Bootstrap settings that a company applies to nodes before they join, on each cloud, and settings that are
refused.
"""

from __future__ import annotations

import email
import subprocess
from typing import Any

import pytest

from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.nodes.section import KubeletLimits, NodeScript
from tests.planning.clouds.eks.eks_pools import AMI, node_group, planned, pool, problems_of, user_data_text
from tests.planning.clouds.eks.test_eks_user_data import node_config, settings
from tests.planning.clouds.gke.test_gke_decisions import decided
from tests.planning.clouds.gke.test_gke_invalid_pools import G2
from tests.planning.clouds.gke.test_gke_invalid_pools import problems_of as problems_on_gke

G6: dict[str, Any] = {"machine_type": "g6.12xlarge", "workload": "inference"}
COMMANDS: dict[str, Any] = {"bootstrap": {"commands": ['echo "$((1 + 1))"', "false", "echo late"]}}
BOTTLEROCKET: dict[str, Any] = {**G6, "image": {"family": "bottlerocket"}}
CONTAINER = {"acme": {"source": "registry.example.com/bootstrap:1", "mode": "once", "essential": True}}
SCRIPT = {"gcs": "gs://acme-nodes/bootstrap.sh", "generation": 3}


def script(text: str) -> str:
    """Parse user data as cloud-init does, and return the only part with the shell script content type."""
    parts: Any = email.message_from_string(text).get_payload()
    (part,) = [one for one in parts if one.get_content_type() == "text/x-shellscript"]
    return part.get_payload()


def test_al2023_runs_commands_as_a_script_that_stops_at_a_failure() -> None:
    text = script(user_data_text(node_group(**G6, **COMMANDS)))
    ran = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "2\n")
    assert text.startswith("#!/bin/bash\n")


def test_commands_are_added_to_the_programs_settings_in_a_custom_image() -> None:
    text = user_data_text(node_group(**G6, **COMMANDS, tuning={"intent": "inference"}))
    parts: Any = email.message_from_string(text).get_payload()
    assert [one.get_content_type() for one in parts] == [
        "application/node.eks.aws",
        "text/cloud-config",
        "text/x-shellscript",
    ]
    assert "echo late" in script(user_data_text(node_group(**G6, **COMMANDS, image={"ami": AMI})))


def test_karpenter_nodes_run_the_commands_from_their_node_class() -> None:
    karpenter: dict[str, Any] = {
        **G6,
        "provisioner": "karpenter",
        "count": {"desired": 0, "max": 2},
        "workload": "development",
    }
    found = planned(**karpenter, **COMMANDS).cloud
    assert isinstance(found, KarpenterPoolPlan)
    assert "echo late" in script(found.node_class["userData"])


def test_bottlerocket_has_user_settings_in_addition_to_the_programs() -> None:
    found = settings(node_group(**BOTTLEROCKET, bootstrap={"settings": {"bootstrap-containers": CONTAINER}}))
    assert found["bootstrap-containers"] == CONTAINER
    assert "local-nvme" in found["bootstrap-commands"]
    both = {"settings": {"bootstrap-commands": {"acme": {"commands": [["apiclient", "get"]], "mode": "once"}}}}
    assert set(settings(node_group(**BOTTLEROCKET, bootstrap=both))["bootstrap-commands"]) == {
        "acme",
        "local-nvme",
    }


def test_limits_of_the_kubelet_are_set_by_the_names_of_each_image() -> None:
    limits = {"pod_pids_limit": 4096, "image_gc_high_percent": 70, "container_log_max_size": "50Mi"}
    kubelet: dict[str, Any] = {"bootstrap": {"kubelet": limits}}
    by_config = node_config(user_data_text(node_group(**kubelet)))["spec"]["kubelet"]["config"]
    assert by_config["topologyManagerPolicy"] == "restricted"
    assert (by_config["podPidsLimit"], by_config["imageGCHighThresholdPercent"]) == (4096, 70)
    by_setting = settings(node_group(**BOTTLEROCKET, **kubelet))["kubernetes"]
    assert by_setting == {
        "pod-pids-limit": 4096,
        "container-log-max-size": "50Mi",
        "image-gc-high-threshold-percent": "70",
    }
    assert decided(**G2, **kubelet).kubelet_limits == KubeletLimits(**limits)


def test_gke_runs_a_script_of_one_generation() -> None:
    assert decided(**G2, bootstrap={"script": SCRIPT}).init_script == NodeScript(**SCRIPT)


def test_empty_additions_do_not_change_the_user_data() -> None:
    assert node_group(**G6, bootstrap={}).user_data == node_group(**G6).user_data


@pytest.mark.parametrize(
    ("said", "place", "words"),
    [
        ({**BOTTLEROCKET, **COMMANDS}, "bootstrap.commands", "Bottlerocket has no shell"),
        (
            {**G6, "bootstrap": {"settings": {"motd": "acme"}}},
            "bootstrap.settings",
            "only Bottlerocket has settings",
        ),
        (
            {**BOTTLEROCKET, "bootstrap": {"settings": {"bootstrap-container": CONTAINER}}},
            "bootstrap.settings.bootstrap-container",
            "did you mean 'bootstrap-containers'?",
        ),
        (
            {**BOTTLEROCKET, "bootstrap": {"settings": {"kernel": {"sysctl": {"vm.swappiness": "1"}}}}},
            "bootstrap.settings.kernel.sysctl",
            "write tuning.sysctls",
        ),
        (
            {**BOTTLEROCKET, "bootstrap": {"settings": {"kubernetes": {"max-pods": 200}}}},
            "bootstrap.settings.kubernetes.max-pods",
            "the plan assumes the default number of pods on a node",
        ),
        (
            {**BOTTLEROCKET, "bootstrap": {"settings": {"kubernetes": {"topology-manager-scope": "pod"}}}},
            "bootstrap.settings.kubernetes.topology-manager-scope",
            "write topology.scope",
        ),
        ({**G6, "bootstrap": {"commands": ["x" * 4000] * 3}}, "bootstrap", "user data has 16 KiB in total"),
        (
            {**G6, "bootstrap": {"script": SCRIPT}},
            "bootstrap.script",
            "EC2 nodes receive commands in their user data",
        ),
    ],
)
def test_what_nodes_of_eks_cannot_run_is_refused(said: dict[str, Any], place: str, words: str) -> None:
    (problem,) = problems_of(pool(**said))
    assert problem.path.endswith(place)
    assert words in str(problem)


@pytest.mark.parametrize("field", [{"commands": ["true"]}, {"settings": {"motd": "acme"}}])
def test_gke_refuses_commands_and_settings_and_names_script_and_daemonset(field: dict[str, Any]) -> None:
    (problem,) = problems_on_gke({"bootstrap": field})
    assert "script" in problem.fix
    assert "use a DaemonSet instead" in problem.fix
