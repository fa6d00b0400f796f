"""Google Cloud as the SDK's mock monitor plays it in a deploy: every output is known, lookups answer from data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pulumi
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks

from tests.components.known_cloud import deploy_on

DNS_ENDPOINT = "gke-made.us-central1.gke.goog"


class KnownGoogle(Mocks):
    """Answers with the inputs and what Google adds to them; remembers what was made, with its URN."""

    def __init__(self, found: Mapping[str, Any] | None, version: str) -> None:
        self._found = found
        self._version = version
        self.made: set[tuple[str, str]] = set()

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made.add((args.typ, args.name))
        added: dict[str, Any] = {"name": args.name, "email": f"{args.name}@example.com", "member": args.name}
        outputs = {**added, **args.inputs}
        if args.typ == "gcp:container/cluster:Cluster":
            outputs["controlPlaneEndpointsConfig"] = {
                "dnsEndpointConfig": {"allowExternalTraffic": True, "endpoint": DNS_ENDPOINT}
            }
            outputs["masterVersion"] = self._version
        return f"{args.name}-id", outputs

    def call(self, args: MockCallArgs) -> Any:
        assert args.token == "gcp:container/getCluster:getCluster"
        return {**(self._found or {}), "name": args.args["name"], "location": args.args["location"]}


def deploy(
    program: Callable[[], pulumi.Output[Any]],
    found: Mapping[str, Any] | None = None,
    version: str = "1.35.2-gke.1269001",
) -> tuple[KnownGoogle, Any]:
    """Run a program as `pulumi up` would; return what it made, and the value of the output that it returns.

    `found`: what GKE says of the cluster that is looked up; `version`: of one that is made.
    Raises what the program raises, also late.
    """
    google = KnownGoogle(found, version)
    return google, deploy_on(google, program)
