"""If EC2 or EKS would reject an EKS pool during a deployment, or if the pool wastes paid capacity, `preview`
reports an error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.planning.clouds.eks.eks_pools import AMI, BLOCK, RESERVATION, eks, pool, problems_of


class Invalid(NamedTuple):
    """A pool, the place of its only problem, and words that the problem contains."""

    said: dict[str, Any]
    place: str
    words: tuple[str, ...]


TWO: dict[str, Any] = {"count": {"desired": 2}, "zones": ["us-east-2a"]}
SERVE: dict[str, Any] = {"machine_type": "g6.xlarge", "workload": "inference"}
IN_GROUP = RESERVATION | {"placement_group": "rack-7"}
ENDS = {"ends": "2026-12-14T11:30:00Z"}
KEY = "arn:aws:kms:us-west-2:123456789012:key/11111111-2222-3333-4444-555555555555"
LONG_KEY = f"{'team.' * 10}example.com/x2"
BOTTLEROCKET = {"image": {"family": "bottlerocket"}}

INVALID: dict[str, Invalid] = {
    # -- capacity
    "flex-start": Invalid(
        {"capacity": {"type": "flex-start"}}, "capacity.type", ("flex-start only on GKE", "capacity-block")
    ),
    "flex-start, queued": Invalid(
        {**SERVE, "capacity": {"type": "flex-start", "queued": True}}, "capacity.type", ("flex-start only on GKE",)
    ),
    "reservation given by name": Invalid(
        {"capacity": RESERVATION | {"reservation": "h100-pool"}},
        "capacity.reservation",
        ("cr-", "describe-capacity"),
    ),
    "reservation id too short": Invalid(
        {"capacity": RESERVATION | {"reservation": "cr-0a1b"}}, "capacity.reservation", ("17 hexadecimal",)
    ),
    "reservation id in capital letters": Invalid(
        {"capacity": RESERVATION | {"reservation": "cr-0A1B2C3D4E5F60718"}},
        "capacity.reservation",
        ("17 hexadecimal",),
    ),
    "block id too long": Invalid(
        {"capacity": BLOCK | {"reservation": "cr-0a1b2c3d4e5f607181"}}, "capacity.reservation", ("17 hexadecimal",)
    ),
    "reservation with a project": Invalid(
        {"capacity": RESERVATION | {"project": "shared"}}, "capacity.project", ("project only on GKE",)
    ),
    "block of a reservation": Invalid(
        {"capacity": RESERVATION | {"block": "b1"}}, "capacity.block", ("block only on GKE", "remove block")
    ),
    "reservation in another region": Invalid(
        {"capacity": RESERVATION | {"zone": "us-west-2a"}}, "capacity.zone", ("a zone of us-east-2",)
    ),
    "capacity block in another region": Invalid(
        {"capacity": BLOCK | {"zone": "us-east-1a"}}, "capacity.zone", ("a zone of us-east-2", "us-east-2a")
    ),
    "reservation in a zone of GCP": Invalid(
        {"capacity": RESERVATION | {"zone": "us-central1-a"}}, "capacity.zone", ("a zone of us-east-2",)
    ),
    **{
        f"capacity block for {machine_type}": Invalid(
            {"machine_type": machine_type, "capacity": BLOCK, "workload": "inference"},
            "capacity.type",
            ("Capacity Blocks", machine_type.split(".")[0]),
        )
        for machine_type in (
            "g4dn.metal",
            "g5.48xlarge",
            "g6.48xlarge",
            "g6e.48xlarge",
            "g7e.48xlarge",
            "p3dn.24xlarge",
        )
    },
    "capacity block that ends before needed_until": Invalid(
        {"capacity": BLOCK | ENDS | {"needed_until": "2026-12-15T00:00:00Z"}}, "capacity.ends", ("40 minutes",)
    ),
    "capacity block that ends exactly at needed_until": Invalid(
        {"capacity": BLOCK | ENDS | {"needed_until": "2026-12-14T11:30:00Z"}},
        "capacity.ends",
        ("drain from 2026-12-14T10:50:00", "extend the block"),
    ),
    "capacity block that drains a minute before needed_until": Invalid(
        {"capacity": BLOCK | ENDS | {"needed_until": "2026-12-14T10:51:00Z"}}, "capacity.ends", ("40 minutes",)
    ),
    "capacity block that drains before a needed_until in another time zone": Invalid(
        {"capacity": BLOCK | ENDS | {"needed_until": "2026-12-14T12:00:00+01:00"}},
        "capacity.ends",
        ("40 minutes",),
    ),
    "needed_until without an end of the block": Invalid(
        {"capacity": BLOCK | {"needed_until": "2026-12-14T11:30:00Z"}}, "capacity.ends", ("nothing", "EndDate")
    ),
    # -- labels
    "a label without a value": Invalid(
        {"labels": {"example.com/empty": ""}}, "labels.example.com/empty", ("an empty value", "node group")
    ),
    "a label whose key is too long for EKS": Invalid(
        {"labels": {LONG_KEY: "x"}}, f"labels.{LONG_KEY}", ("64 characters", "at most 63")
    ),
    "a taint whose key is too long for EKS": Invalid(
        {"taints": [{"key": LONG_KEY, "value": "", "effect": "NoSchedule"}]},
        "taints[0].key",
        ("64 characters", "at most 63"),
    ),
    # -- zones
    "placed training without a zone": Invalid(
        {"count": {"desired": 2}}, "zones", ("every zone", "placement group is in one", "2 nodes with EFA")
    ),
    "placed training in two zones": Invalid(
        {"count": {"desired": 2}, "zones": ["us-east-2a", "us-east-2b"]},
        "zones",
        ("us-east-2a, us-east-2b", "exactly one zone"),
    ),
    "placement across two zones": Invalid(
        {**SERVE, "placement": {"type": "cluster"}, "zones": ["us-east-2a", "us-east-2b"]},
        "zones",
        ("exactly one zone: a cluster placement group is in one",),
    ),
    "placement in every zone": Invalid(
        {**SERVE, "placement": {"type": "cluster"}},
        "zones",
        ("no zones, so every zone", "write zones: [us-east-2a]"),
    ),
    "an existing group in every zone": Invalid(
        {**SERVE, "placement": {"type": "cluster", "group": "rack-7"}}, "zones", ("exactly one zone",)
    ),
    "EFA over two zones": Invalid(
        {"count": {"desired": 2}, "placement": {"type": "none"}, "zones": ["us-east-2a", "us-east-2b"]},
        "zones",
        ("EFA traffic does not cross zones",),
    ),
    "EFA on spot in every zone": Invalid(
        {"count": {"desired": 0, "max": 4}, "capacity": {"type": "spot"}}, "zones", ("EFA traffic does not cross",)
    ),
    "inference with EFA in every zone": Invalid(
        {
            "machine_type": "g6e.48xlarge",
            "workload": "inference",
            "count": {"desired": 3},
            "network": {"rdma": True},
        },
        "zones",
        ("EFA traffic does not cross zones",),
    ),
    "zones in addition to a reservation": Invalid(
        {"capacity": RESERVATION, "zones": ["us-east-2b"]}, "zones", ("only us-east-2a,", "remove zones")
    ),
    "more zones than a reservation has": Invalid(
        {"capacity": RESERVATION, "zones": ["us-east-2a", "us-east-2b"]}, "zones", ("only us-east-2a,",)
    ),
    "zones in addition to a capacity block": Invalid(
        {"capacity": BLOCK, "zones": ["us-east-2c"]}, "zones", ("only us-east-2a,", "capacity-block")
    ),
    "a zone in another region": Invalid(
        {**SERVE, "zones": ["us-east-2a", "us-west-2a"]}, "zones[1]", ("a zone of us-east-2",)
    ),
    "a zone of GCP": Invalid({**SERVE, "zones": ["us-central1-a"]}, "zones[0]", ("a zone of us-east-2",)),
    "a zone twice": Invalid({**SERVE, "zones": ["us-east-2a", "us-east-2a"]}, "zones[1]", ("each zone once",)),
    # -- placement
    "compact placement": Invalid(
        {**TWO, "placement": {"type": "compact"}}, "placement.type", ("none or cluster", "compact only on GKE")
    ),
    "a group without placement": Invalid(
        {"placement": {"type": "none", "group": "rack-7"}}, "placement.group", ("only with type cluster",)
    ),
    "a new group with a reservation": Invalid(
        {"capacity": RESERVATION, "placement": {"type": "cluster"}}, "placement.type", ("16 reserved nodes to 11",)
    ),
    "a group that is not the reservation's": Invalid(
        {"capacity": IN_GROUP, "placement": {"type": "cluster", "group": "rack-8"}},
        "placement.group",
        ("'rack-8'", "'rack-7'", "get no reserved capacity"),
    ),
    "a group with a reservation that names no group": Invalid(
        {"capacity": RESERVATION, "placement": {"type": "cluster", "group": "rack-8"}},
        "placement.group",
        ("placement_group is none", "capacity.placement_group"),
    ),
    "no placement with a reservation in a group": Invalid(
        {"capacity": IN_GROUP, "placement": {"type": "none"}},
        "placement.type",
        ("only instances in the reservation",),
    ),
    "placement with a capacity block": Invalid(
        {"capacity": BLOCK, "placement": {"type": "cluster"}},
        "placement.type",
        ("UltraCluster", "remove placement"),
    ),
    "a group with a capacity block": Invalid(
        {"capacity": BLOCK, "placement": {"type": "cluster", "group": "rack-7"}},
        "placement.type",
        ("UltraCluster",),
    ),
    # -- network
    "networks as on GKE": Invalid(
        {"network": {"via": "networks"}},
        "network.via",
        ("device-plugin or dranet; networks only on GKE", "remove via"),
    ),
    "network profile as on GKE": Invalid(
        {"network": {"via": "profile"}},
        "network.via",
        ("device-plugin or dranet; profile only on GKE", "remove via"),
    ),
    "EFA on a small size": Invalid(
        {"machine_type": "g6.xlarge", "network": {"rdma": True}}, "network.rdma", ("no EFA", "g6.8xlarge")
    ),
    "EFA on a family without it": Invalid(
        {"machine_type": "g5g.metal", "network": {"rdma": True}}, "network.rdma", ("g5g has none",)
    ),
    "layout without EFA": Invalid(
        {**SERVE, "network": {"layout": "efa-primary"}}, "network.layout", ("without EFA interfaces",)
    ),
    "layout with EFA switched off": Invalid(
        {"network": {"rdma": False, "layout": "ena-and-efa"}}, "network.layout", ("without EFA interfaces",)
    ),
    "EFA on card 0 of p6-b300": Invalid(
        {"machine_type": "p6-b300.48xlarge", "network": {"layout": "efa-primary"}},
        "network.layout",
        ("network card 0 of p6-b300 has no EFA",),
    ),
    # -- image
    "cos": Invalid({"image": {"family": "cos"}}, "image.family", ("al2023 or bottlerocket",)),
    "ubuntu": Invalid(
        {"image": {"family": "ubuntu"}}, "image.family", ("al2023 or bottlerocket", "ubuntu only on GKE")
    ),
    "driver of an EKS image": Invalid(
        {"image": {"driver": "580.126.09"}}, "image.driver", ("without ami", "name the AMI")
    ),
    "G7 on an EKS image": Invalid(
        {**SERVE, "machine_type": "g7.2xlarge"},
        "machine_type",
        ("branch 580", "595", "image.ami and image.driver"),
    ),
    "G7 on Bottlerocket": Invalid(
        {**SERVE, **BOTTLEROCKET, "machine_type": "g7.2xlarge"}, "machine_type", ("branch 580", "595")
    ),
    "G7 on an AMI without a driver version": Invalid(
        {**SERVE, "machine_type": "g7.2xlarge", "image": {"ami": AMI}}, "machine_type", ("595", "image.driver")
    ),
    "G7 on an AMI with too old a driver": Invalid(
        {**SERVE, "machine_type": "g7.2xlarge", "image": {"ami": AMI, "driver": "590.48.01"}},
        "machine_type",
        ("590.48.01", "595"),
    ),
    "P3dn on an AMI with too new a driver": Invalid(
        {**SERVE, "machine_type": "p3dn.24xlarge", "image": {"ami": AMI, "driver": "595.71.05"}},
        "machine_type",
        ("595.71.05", "384 to 580"),
    ),
    # -- disks
    **{
        f"{kind} disk": Invalid({"disk": {"type": kind}}, "disk.type", (kind, "gp3 or io2", "remove type"))
        for kind in ("pd-balanced", "pd-ssd", "hyperdisk-balanced")
    },
    "a key of Cloud KMS": Invalid(
        {"disk": {"kms_key": "projects/p/locations/l/keyRings/r/cryptoKeys/k"}}, "disk.kms_key", ("AWS KMS",)
    ),
    "a key in another region": Invalid({"disk": {"kms_key": KEY}}, "disk.kms_key", ("a key in us-east-2",)),
    # -- size, upgrades, kubelet, labels
    "a maximum of no nodes": Invalid({"count": {"desired": 0}}, "count.max", ("1 or more", "write max: 1")),
    "blue-green": Invalid(
        {"upgrade": {"strategy": "blue-green"}}, "upgrade.strategy", ("surge; blue-green only on GKE",)
    ),
    "surge": Invalid({"upgrade": {"max_surge": 2}}, "upgrade.max_surge", ("max_unavailable",)),
    "no unavailable node": Invalid({"upgrade": {"max_unavailable": 0}}, "upgrade.max_unavailable", ("1 or more",)),
    "more unavailable nodes than a node group has": Invalid(
        {"workload": "inference", "count": {"desired": 8}, "upgrade": {"max_unavailable": 9}},
        "upgrade.max_unavailable",
        ("9 with at most 8 nodes", "1 to 8", "write max_unavailable: 8"),
    ),
    "static memory without a topology policy": Invalid(
        {"topology": {"policy": "none", "memory": "static"}},
        "topology.memory",
        ("policy none", "policy: restricted"),
    ),
    "Karpenter's settings on a node group": Invalid(
        {"karpenter": {"expire_after": "24h"}}, "karpenter", ("provisioner: managed", "provisioner: karpenter")
    ),
    "a label that EKS sets": Invalid(
        {"labels": {"eks.amazonaws.com/nodegroup": "mine"}},
        "labels.eks.amazonaws.com/nodegroup",
        ("a label outside the domain",),
    ),
    "the label of EFA": Invalid(
        {"labels": {"vpc.amazonaws.com/efa.present": "false"}},
        "labels.vpc.amazonaws.com/efa.present",
        ("a label outside the domain",),
    ),
    "more taints than a node group can have": Invalid(
        {"taints": [{"key": f"team-{index}", "effect": "NoSchedule"} for index in range(49)]},
        "taints",
        ("49 in addition to the GPU taint", "50 in total"),
    ),
    # -- errors that pools of Karpenter share with node groups
    "Karpenter with flex-start": Invalid(
        {
            **SERVE,
            "provisioner": "karpenter",
            "count": {"desired": 0, "max": 4},
            "capacity": {"type": "flex-start"},
        },
        "capacity.type",
        ("flex-start only on GKE",),
    ),
    "Karpenter with placement in every zone": Invalid(
        {
            **SERVE,
            "provisioner": "karpenter",
            "count": {"desired": 0, "max": 4},
            "placement": {"type": "cluster"},
        },
        "zones",
        ("exactly one zone",),
    ),
}


@pytest.mark.parametrize(("said", "place", "words"), INVALID.values(), ids=INVALID)
def test_a_pool_that_eks_would_refuse_is_one_error_that_says_where_and_why(
    said: dict[str, Any], place: str, words: tuple[str, ...]
) -> None:
    (problem,) = problems_of(pool(**said))
    assert problem.path == f"pool.{place}"
    text = str(problem)
    assert all(word in text for word in words), text
    assert problem.fix


def test_the_table_has_at_least_fifty_pools() -> None:
    assert len(INVALID) >= 50


def test_all_mistakes_of_a_pool_are_shown_at_once() -> None:
    spec = pool(
        machine_type="g6.xlarge",
        count={"desired": 2},
        capacity={"type": "flex-start"},
        placement={"type": "compact"},
        network={"rdma": True, "via": "profile"},
        image={"family": "cos", "driver": "580.1"},
        disk={"type": "pd-ssd", "kms_key": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
        upgrade={"strategy": "blue-green", "max_surge": 1, "max_unavailable": 0},
    )
    assert {problem.path.removeprefix("pool.") for problem in problems_of(spec)} == {
        "capacity.type",
        "placement.type",
        "network.rdma",
        "network.via",
        "image.family",
        "image.driver",
        "disk.type",
        "disk.kms_key",
        "upgrade.strategy",
        "upgrade.max_surge",
        "upgrade.max_unavailable",
        "zones",
    }


def test_nodes_of_karpenter_take_every_label_and_taint_that_kubernetes_has() -> None:
    spec = pool(
        machine_type="g6.xlarge",
        workload="inference",
        provisioner="karpenter",
        count={"desired": 0, "max": 1},
        labels={LONG_KEY: "x", "example.com/empty": ""},
        taints=[{"key": LONG_KEY, "value": "", "effect": "NoSchedule"}],
    )
    assert problems_of(spec) == []


def test_the_region_of_the_cluster_decides_which_zones_are_its_own() -> None:
    spec = pool(machine_type="g6.xlarge", workload="inference", zones=["us-west-2a"])
    assert problems_of(spec, eks(region="us-west-2")) == []
    assert [problem.path for problem in problems_of(spec, eks())] == ["pool.zones[0]"]
