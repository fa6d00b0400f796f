"""Google Cloud in a deployment, simulated by the SDK's mock monitor, with known outputs and test data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pulumi
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks

from tests.components.known_cloud import deploy_on

NODES = ("my-project", "us-central1", "nodes")
SUBNETS = {NODES: "10.0.0.0/20"}
DNS_ENDPOINT = "gke-made.us-central1.gke.goog"


class KnownGoogle(Mocks):
    """A simulated cloud that records the types and names of resources. A resource's outputs are its inputs and the
    values that Google adds.
    """

    def __init__(
        self, found: Mapping[str, Any] | None, version: str, subnets: Mapping[tuple[str, str, str], str]
    ) -> None:
        self._found = found
        self._subnets = subnets
        self._version = version
        self.made: set[tuple[str, str]] = set()
        self.identifiers: list[str] = []
        """Cluster identifiers of the Kubernetes providers."""

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made.add((args.typ, args.name))
        if args.typ == "pulumi:providers:kubernetes":
            self.identifiers.append(args.inputs["clusterIdentifier"])
        added: dict[str, Any] = {"name": args.name, "email": f"{args.name}@example.com", "member": args.name}
        outputs = {**added, **args.inputs}
        if args.typ == "gcp:container/cluster:Cluster":
            outputs["controlPlaneEndpointsConfig"] = {
                "dnsEndpointConfig": {"allowExternalTraffic": True, "endpoint": DNS_ENDPOINT}
            }
            outputs["masterVersion"] = self._version
        return f"{args.name}-id", outputs

    def call(self, args: MockCallArgs) -> Any:
        if args.token == "gcp:compute/getSubnetwork:getSubnetwork":
            found = self._subnets[args.args["project"], args.args["region"], args.args["name"]]
            return {**args.args, "id": "1", "ipCidrRange": found}
        assert args.token == "gcp:container/getCluster:getCluster"
        return {**(self._found or {}), "name": args.args["name"], "location": args.args["location"]}


def deploy(
    program: Callable[[], pulumi.Output[Any]],
    found: Mapping[str, Any] | None = None,
    version: str = "1.35.2-gke.1269001",
    subnets: Mapping[tuple[str, str, str], str] = SUBNETS,
) -> tuple[KnownGoogle, Any]:
    """Run a program as `pulumi up` would. Return the simulated cloud and the value of the program's output.

    `found` is the existing cluster that a lookup returns, and `version` the version of a created cluster.
    `subnets` contains the range of each subnetwork by project, region and name. Raises every exception of the
    program, including those raised later in an apply.
    """
    google = KnownGoogle(found, version, subnets)
    return google, deploy_on(google, program)
