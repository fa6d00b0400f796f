"""Which addresses a team's egress and ingress settings allow. The tests evaluate the NetworkPolicies without the
planner's code.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import PlanMaker, environment, pool, team
from tests.support.recorded import Recorded, record_platform
from tests.support.size import size

PUBLIC = ("8.8.8.8", "52.219.0.10", "140.82.112.3", "199.36.153.9", "1.1.1.1", "100.128.0.1", "172.32.0.1")
PRIVATE = ("10.0.0.7", "10.255.255.255", "172.20.3.4", "192.168.5.6", "100.64.0.2")
OF_NODES = ("169.254.169.254", "169.254.170.23", "169.254.0.9", "127.0.0.1", "224.0.0.1", "0.0.0.1")
SOURCE = {"namespace": "gateway", "ports": [8080]}
NETWORKS = st.sampled_from(["10.0.0.0/8", "192.168.5.0/24", "52.219.0.0/16", "172.20.3.4/32"])
PORTS = st.lists(st.sampled_from([443, 5432, 6379]), min_size=1, max_size=3)


GKE: dict[str, Any] = {"provider": "gke", "name": "ml", "project": "my-project", "location": "us-central1"}
MEMBERS = ["group:a@example.com"]
NAMED: dict[str, Any] = {**GKE, "fqdn_policies": True}


def deployed(*teams: dict[str, Any], nodes: dict[str, Any] | None = None, **rest: Any) -> Recorded:
    """Return the resources registered by a deployment of all teams. `nodes` sets further fields of the pool."""
    return record_platform(environment(pool(**nodes or {}), teams=list(teams), **rest))


def policies(*teams: dict[str, Any], **rest: Any) -> list[dict[str, Any]]:
    """Return the NetworkPolicies registered by a deployment of all teams."""
    return [dict(one.inputs) for one in deployed(*teams, **rest).of("NetworkPolicy")]


def on_gke(*teams: dict[str, Any], cluster: dict[str, Any]) -> Recorded:
    """Return the resources registered by a deployment on GKE."""
    gpus = pool(machine_type="g2-standard-48", zones=["us-central1-a"], placement={"type": "none"})
    return record_platform(environment(gpus, teams=list(teams), cluster=cluster))


def reaches(found: list[dict[str, Any]], namespace: str, address: str, port: int) -> bool:
    """Return whether a pod in the namespace may open a TCP connection to an address outside the cluster."""
    for policy in found:
        if policy["metadata"].get("namespace") != namespace:
            continue
        for rule in policy["spec"].get("egress", ()):
            allowed = [one["port"] for one in rule.get("ports", ()) if one["protocol"] == "TCP"]
            for peer in rule.get("to", ()):
                block = peer.get("ipBlock")
                if block is None or port not in allowed:
                    continue
                inside = ip_address(address) in ip_network(block["cidr"])
                if inside and not any(ip_address(address) in ip_network(one) for one in block.get("except", ())):
                    return True
    return False


@pytest.mark.parametrize("address", [*PUBLIC, *PRIVATE, *OF_NODES])
def test_a_team_without_egress_reaches_nothing_outside_the_cluster(address: str) -> None:
    assert not reaches(policies(team()), "vision", address, 443)


@pytest.mark.parametrize("address", [*PUBLIC, *PRIVATE, *OF_NODES])
def test_internet_allows_only_https_to_public_addresses(address: str) -> None:
    found = policies(team(egress=["internet"]), team("speech"))
    assert reaches(found, "vision", address, 443) == (address in PUBLIC)
    assert not reaches(found, "vision", address, 80)
    assert not reaches(found, "speech", address, 443)


@settings(max_examples=size(6, 150))  # each Hypothesis example deploys a platform
@given(st.dictionaries(NETWORKS, PORTS, max_size=4), st.booleans())
def test_every_address_and_port_that_is_named_is_reached_and_nothing_else(
    networks: dict[str, list[int]], internet: bool
) -> None:
    egress: list[Any] = [{"cidr": cidr, "ports": ports} for cidr, ports in networks.items()]
    found = policies(team(egress=[*egress, *(["internet"] if internet else [])]))
    for address in (*PUBLIC, *PRIVATE, *OF_NODES):
        for port in (80, 443, 5432, 6379):
            named = any(
                ip_address(address) in ip_network(cidr) and port in ports for cidr, ports in networks.items()
            )
            public = internet and address in PUBLIC and port == 443
            assert reaches(found, "vision", address, port) == (named or public), (address, port)


def test_ingress_admits_a_namespace_and_addresses_on_their_ports() -> None:
    found = policies(
        team(ingress=[{"namespace": "gateway", "ports": [8080]}, {"cidr": "10.9.0.0/16", "ports": [9090, 8080]}])
    )
    [declared] = [one for one in found if one["metadata"]["name"] == "allow-declared"]
    assert declared["spec"]["ingress"] == [
        {
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gateway"}}}],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        },
        {
            "from": [{"ipBlock": {"cidr": "10.9.0.0/16"}}],
            "ports": [{"port": 8080, "protocol": "TCP"}, {"port": 9090, "protocol": "TCP"}],
        },
    ]


@pytest.mark.parametrize(
    "left", [{"egress": ["internet"]}, {"egress": [{"cidr": "10.0.0.0/8"}]}, {"ingress": [SOURCE]}]
)
def test_a_removed_entry_changes_a_policy_and_deletes_none(left: dict[str, Any]) -> None:
    with_it, without = deployed(team(**left)), deployed(team())
    kept = {one.name for one in with_it.of("NetworkPolicy") if one.retain_on_delete}
    of_team = {one.name for one in without.of("NetworkPolicy") if one.name.startswith("vision/")}
    assert kept == of_team
    assert not reaches([dict(one.inputs) for one in without.of("NetworkPolicy")], "vision", "10.0.0.7", 443)


@pytest.mark.parametrize("address", [*PUBLIC, *PRIVATE, *OF_NODES])
def test_google_apis_are_reached_only_at_their_addresses(address: str) -> None:
    found = on_gke(team(egress=["cloud-apis"], members=MEMBERS), cluster={**GKE, "create": {"private_apis": True}})
    opened = [dict(one.inputs) for one in found.of("NetworkPolicy")]
    assert reaches(opened, "vision", address, 443) == (address == "199.36.153.9")
    records = {one.inputs["name"]: one.inputs["rrdatas"] for one in found.of("RecordSet")}
    assert records["*.googleapis.com."] == ["private.googleapis.com."]
    assert all(
        reaches(opened, "vision", resolved, 443) and not reaches(opened, "vision", resolved, 80)
        for resolved in records["private.googleapis.com."]
    )


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        ({**GKE, "create": {"private_apis": True}}, "cluster.create.private_apis"),
        (GKE, "the owner of the VPC"),
        ({**GKE, "create": {"network": {"name": "a", "subnetwork": "b"}}}, "the owner of the VPC"),
    ],
)
def test_the_plan_says_who_resolves_the_names_of_the_apis(
    make_plan: PlanMaker, cluster: dict[str, Any], told: str
) -> None:
    gpus = pool(machine_type="g2-standard-48", zones=["us-central1-a"], placement={"type": "none"})
    plan = make_plan(gpus, cluster=cluster, teams=[team(egress=["cloud-apis"], members=MEMBERS)])
    (decision,) = [one for one in plan.decisions if one.what == "cloud-apis"]
    assert told in decision.why


def test_hosts_are_reached_by_policies_of_gke_that_name_them_and_by_no_other() -> None:
    hosts = [{"fqdn": "huggingface.co"}, {"fqdn": "*.example.com", "ports": [8443, 443]}]
    found = on_gke(
        team(egress=hosts, members=MEMBERS), team("speech", members=MEMBERS), cluster={**NAMED, "create": {}}
    )
    assert {
        (one.inputs["metadata"]["namespace"], one.inputs["metadata"]["name"]): one.inputs["spec"]
        for one in found.of("FQDNNetworkPolicy")
    } == {
        ("vision", "allow-huggingface.co"): {
            "podSelector": {},
            "egress": [
                {"matches": [{"name": "huggingface.co"}], "ports": [{"protocol": "TCP", "port": 443}]},
            ],
        },
        ("vision", "allow-below-example.com"): {
            "podSelector": {},
            "egress": [
                {
                    "matches": [{"pattern": "*.example.com"}],
                    "ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 8443}],
                }
            ],
        },
    }
    assert not any(one.retain_on_delete for one in found.of("FQDNNetworkPolicy"))
    [cluster] = [one for one in found.of("Cluster") if "container" in one.type]
    assert cluster.inputs["enableFqdnNetworkPolicy"] is True
    opened = [dict(one.inputs) for one in found.of("NetworkPolicy")]
    assert not any(reaches(opened, "vision", address, 443) for address in PUBLIC)


DATASET = {"buckets": [{"name": "acme-datasets"}]}
# Addresses of the GKE metadata server in network policies, with and without Dataplane V2.
METADATA = [("169.254.169.254", 80), ("169.254.169.252", 987), ("169.254.169.252", 988)]


@pytest.mark.parametrize(("address", "port"), METADATA)
def test_on_gke_only_teams_with_an_identity_reach_the_metadata_server(address: str, port: int) -> None:
    teams = [team(members=MEMBERS, identity=DATASET), team("search", members=MEMBERS)]
    opened = [dict(one.inputs) for one in on_gke(*teams, cluster=GKE).of("NetworkPolicy")]
    assert reaches(opened, "vision", address, port)
    assert not reaches(opened, "search", address, port)
    assert not reaches(opened, "vision", address, 443)
    assert reaches(opened, "search", "169.254.169.254", 53)  # Cloud DNS


def test_a_new_gke_cluster_has_dataplane_v2_and_no_address_of_another() -> None:
    teams = [team(members=MEMBERS, identity=DATASET), team("search", members=MEMBERS)]
    found = on_gke(*teams, cluster={**GKE, "create": {}})
    opened = [dict(one.inputs) for one in found.of("NetworkPolicy")]
    for one in ("vision", "search"):
        assert [reaches(opened, one, address, port) for address, port in METADATA] == [True, False, False]


EKS: dict[str, Any] = {"provider": "eks", "name": "ml", "region": "us-east-2"}


@pytest.mark.parametrize(
    ("cluster", "ipv6"),
    [(EKS, True), ({**EKS, "create": {"admins": ["arn:aws:iam::123456789012:role/admin"]}}, False)],
    ids=["existing", "created"],
)
def test_pod_identity_agent_is_reachable_in_both_address_families(cluster: dict[str, Any], ipv6: bool) -> None:
    gpus = pool(machine_type="g6.12xlarge", workload="inference", zones=["us-east-2a"])
    found = record_platform(environment(gpus, teams=[team()], cluster=cluster))
    opened = [dict(one.inputs) for one in found.of("NetworkPolicy")]
    assert reaches(opened, "vision", "169.254.170.23", 80)
    assert reaches(opened, "vision", "fd00:ec2::23", 80) == ipv6
    assert not any(reaches(opened, "vision", address, 80) for address in ("fd00:ec2::254", "169.254.169.254"))


def on_cilium(*teams: dict[str, Any]) -> Recorded:
    """Return the resources registered by a deployment on an existing cluster with Cilium."""
    gpus = pool(nodes={"selector": {"gpu": "train"}})
    cluster = {**EXISTING, "network_policies": "cilium"}
    return record_platform(environment(gpus, teams=list(teams), cluster=cluster))


def test_hosts_are_reached_by_one_policy_of_cilium_that_reads_the_answers_of_dns() -> None:
    hosts = [{"fqdn": "huggingface.co"}, {"fqdn": "*.example.com", "ports": [8443, 443]}]
    found = on_cilium(team(egress=hosts), team("speech"))
    [policy] = found.of("CiliumNetworkPolicy")
    assert policy.inputs["apiVersion"] == "cilium.io/v2"
    assert (policy.inputs["metadata"]["namespace"], policy.retain_on_delete) == ("vision", False)
    assert policy.inputs["spec"] == {
        "endpointSelector": {},
        "egress": [
            {
                "toEndpoints": [{"matchLabels": {"k8s:io.kubernetes.pod.namespace": "kube-system"}}],
                "toPorts": [
                    {
                        "ports": [{"port": "53", "protocol": "UDP"}, {"port": "53", "protocol": "TCP"}],
                        "rules": {"dns": [{"matchPattern": "*"}]},
                    }
                ],
            },
            {
                "toFQDNs": [{"matchName": "huggingface.co"}],
                "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}],
            },
            {
                "toFQDNs": [{"matchPattern": "*.example.com"}],
                "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}, {"port": "8443", "protocol": "TCP"}]}],
            },
        ],
    }


def test_only_the_cilium_policy_opens_the_ports_of_the_dns_pods() -> None:
    found = on_cilium(team(egress=[{"fqdn": "huggingface.co"}]), team("speech"))
    of_dns = {
        one.inputs["metadata"]["namespace"]: one.inputs["spec"]["egress"][0]["to"]
        for one in found.of("NetworkPolicy")
        if one.inputs["metadata"]["name"] == "allow-dns"
    }
    caches = [["ipBlock"], ["ipBlock"]]  # the node-local DNS caches of Kubernetes and of Kubespray
    assert [list(peer) for peer in of_dns["vision"]] == caches
    assert [list(peer) for peer in of_dns["speech"]] == [["namespaceSelector"], *caches]


EXISTING: dict[str, Any] = {"provider": "existing", "context": "lab"}
SANDBOX: dict[str, Any] = {"provider": "sandbox"}
EKS: dict[str, Any] = {"provider": "eks", "name": "prod", "region": "us-east-2"}


@pytest.mark.parametrize(
    ("cluster", "entry", "place", "fix"),
    [
        (SANDBOX, "cloud-apis", "", "write internet"),
        (EKS, "cloud-apis", "", "the network of the VPC's endpoints"),
        ({**GKE, "create": {}}, "cloud-apis", "", "write private_apis: true"),
        (SANDBOX, {"fqdn": "huggingface.co"}, ".fqdn", "set cidr, or write internet"),
        (EKS, {"fqdn": "huggingface.co"}, ".fqdn", "set cidr, or write internet"),
        (GKE, {"fqdn": "huggingface.co"}, ".fqdn", "write fqdn_policies: true"),
        (EXISTING, {"fqdn": "huggingface.co"}, ".fqdn", "write network_policies: cilium"),
        (NAMED, {"fqdn": "metadata.google.internal"}, ".fqdn", "remove it"),
        (NAMED, {"fqdn": "*.svc.cluster.local"}, ".fqdn", "remove it"),
        (NAMED, {"fqdn": "10.0.0.1"}, ".fqdn", "for addresses, set cidr"),
        (NAMED, {"fqdn": "*.co"}, ".fqdn", "for example"),
        (NAMED, {"fqdn": "*"}, ".fqdn", "for example"),
        (NAMED, {"fqdn": "hub.*.co"}, ".fqdn", "for example"),
        (NAMED, {"fqdn": "a.co", "cidr": "10.0.0.0/8"}, "", "fqdn for hosts"),
        (NAMED, {"ports": [443]}, "", "fqdn for hosts"),
    ],
)
def test_a_rule_that_the_dataplane_cannot_enforce_is_refused(
    cluster: dict[str, Any], entry: str | dict[str, Any], place: str, fix: str
) -> None:
    pools = {
        "sandbox": pool(),
        "existing": pool(nodes={"selector": {"gpu": "train"}}),
        "eks": pool(zones=["us-east-2a"]),
        "gke": pool(machine_type="g2-standard-48", zones=["us-central1-a"], placement={"type": "none"}),
    }
    of_provider = pools[cluster["provider"]]
    with pytest.raises(BadInput) as error:
        plan_platform(
            environment(of_provider, teams=[team(egress=[entry], members=MEMBERS)], cluster=cluster), "test"
        )
    [problem] = error.value.problems
    assert problem.path == f"teams[0].egress[0]{place}"
    assert fix in problem.fix


@pytest.mark.parametrize(
    ("rest", "place", "told"),
    [
        ({"egress": [{"cidr": "0.0.0.0/0"}]}, "egress[0].cidr", "write internet"),
        ({"egress": [{"cidr": "169.254.169.254/32"}]}, "egress[0].cidr", "credentials"),
        ({"egress": [{"cidr": "168.63.129.0/24"}]}, "egress[0].cidr", "a network without 168.63.129.16/32"),
        ({"egress": [{"cidr": "168.0.0.0/6"}]}, "egress[0].cidr", "name a smaller network"),
        ({"egress": ["internet", "internet"]}, "egress[1]", "each once"),
        ({"egress": [{"cidr": "10.0.0.0/8"}, {"cidr": "10.0.0.0/8", "ports": [80]}]}, "egress[1]", "all ports"),
        ({"ingress": [{"ports": [80]}]}, "ingress[0]", "one of them"),
        ({"ingress": [{"namespace": "a", "cidr": "10.0.0.0/8", "ports": [80]}]}, "ingress[0]", "one of them"),
        ({"ingress": [{"namespace": "vision", "ports": [80]}]}, "ingress[0].namespace", "the team's own"),
        ({"ingress": [{"namespace": "a", "ports": [80]}] * 2}, "ingress[1]", "each once"),
    ],
)
def test_networks_that_open_nodes_or_say_things_twice_are_refused(
    make_plan: PlanMaker, rest: dict[str, Any], place: str, told: str
) -> None:
    with pytest.raises(BadInput, match=told) as error:
        make_plan(pool(), teams=[team(**rest)])
    assert [problem.path for problem in error.value.problems] == [f"teams[0].{place}"]


def test_the_plan_says_what_a_team_chose(make_plan: PlanMaker) -> None:
    plan: EnvironmentPlan = make_plan(
        pool(), teams=[team(egress=["internet", {"cidr": "10.0.0.0/8", "ports": [5432]}])]
    )
    (decision,) = [one for one in plan.decisions if (one.subject, one.what) == ("team vision", "egress")]
    assert decision.chosen == "public addresses TCP 443; 10.0.0.0/8 TCP 5432"


@pytest.mark.parametrize(("egress", "told"), [([], ["none"]), (["internet"], ["public addresses TCP 443"])])
def test_the_plan_says_that_buckets_are_out_of_reach_without_egress(
    make_plan: PlanMaker, egress: list[str], told: list[str]
) -> None:
    cluster = {"provider": "eks", "name": "prod", "region": "us-east-2"}
    identity = {"buckets": [{"name": "acme-datasets"}]}
    plan = make_plan(pool(), cluster=cluster, teams=[team(egress=egress, identity=identity)])
    assert [one.chosen for one in plan.decisions if (one.subject, one.what) == ("team vision", "egress")] == told


OF_OWNER: dict[str, Any] = {"provider": "existing", "name": "lab"}
NODES: dict[str, Any] = {"nodes": {"names": ["gpu-0"]}}
# The operator of KubeRay reads the state of Ray jobs and services from the head (ray-project/kuberay#3467).
RAY_PORTS = [8000, 8265]


def with_kuberay(part: str, **rest: Any) -> EnvironmentPlan:
    plan = plan_platform(
        environment(pool(**NODES), cluster=OF_OWNER, addons={"kuberay": part}, teams=[team(**rest)]), "test"
    )
    assert plan.kind == "environment"
    return plan


def warnings_of(plan: EnvironmentPlan) -> list[str]:
    return [one.why for one in plan.decisions if one.what == "warning: KubeRay"]


def test_the_installed_kuberay_reaches_the_dashboards_of_ray_clusters() -> None:
    found = policies(team(), nodes=NODES, cluster=OF_OWNER, addons={"kuberay": "install"})
    [declared] = [one for one in found if one["metadata"]["name"] == "allow-declared"]
    assert declared["spec"]["ingress"] == [
        {
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kuberay-system"}}}],
            "ports": [{"port": port, "protocol": "TCP"} for port in RAY_PORTS],
        }
    ]
    plan = with_kuberay("install")
    [said] = [one for one in plan.decisions if (one.subject, one.what) == ("team vision", "ingress")]
    assert said.chosen == "namespace kuberay-system TCP 8000, TCP 8265"
    assert not warnings_of(plan)


def test_check_warns_if_the_owners_kuberay_may_not_reach_ray_clusters() -> None:
    [why] = warnings_of(with_kuberay("present"))
    assert "RayJobs never end" in why
    assert "write ingress: [{namespace: NAMESPACE, ports: [8000, 8265]}]" in why
    assert not warnings_of(with_kuberay("present", ingress=[{"namespace": "ray", "ports": RAY_PORTS}]))


def test_other_addons_do_not_connect_to_pods_of_teams() -> None:
    found = policies(
        team(), nodes=NODES, cluster=OF_OWNER, addons={"trainer": "install", "leaderworkerset": "install"}
    )
    [declared] = [one for one in found if one["metadata"]["name"] == "allow-declared"]
    assert declared["spec"]["ingress"] == []
