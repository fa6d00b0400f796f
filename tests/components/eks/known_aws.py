"""AWS in a deployment, simulated by the SDK's mock monitor. All outputs are known. Lookups return test data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks

from tests.components.known_cloud import deploy_on

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""A function that returns a provider function's result for its arguments, or None if the object does not exist in
AWS.
"""

CLUSTER_OUTPUTS: Mapping[str, Any] = {
    "endpoint": "https://ABC.gr7.us-east-2.eks.amazonaws.com",
    "certificateAuthority": {"data": "Q0E="},
    "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"},
}


class KnownAws(Mocks):
    """A simulated AWS account that stores the created resources. A resource's outputs are its inputs and the
    values that AWS adds.
    """

    def __init__(self, answers: Mapping[str, Answer] | None = None) -> None:
        self._answers = answers or {}
        self.made: dict[tuple[str, str], dict[str, Any]] = {}

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        kind = args.typ.rsplit(":", 1)[-1]
        self.made[kind, args.name] = args.inputs
        added: dict[str, Any] = {"arn": f"arn:aws:made:us-east-2:123456789012:{args.name}", "name": args.name}
        if kind == "Cluster":
            added |= CLUSTER_OUTPUTS
            added["vpcConfig"] = {**args.inputs["vpcConfig"], "clusterSecurityGroupId": "sg-0c1u5te2"}
        if kind == "LaunchTemplate":
            added["latestVersion"] = 1
        return f"{args.name}-id", {**added, **args.inputs}

    def call(self, args: MockCallArgs) -> Any:
        answer = self._answers[args.token.rsplit(":", 1)[-1]](args.args)
        return dict(answer) if answer is not None else ({}, [("", f"{args.token}: not found")])

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [inputs for (made, _), inputs in self.made.items() if made == kind]


def deploy(program: Callable[[], Any], answers: Mapping[str, Answer] | None = None) -> tuple[KnownAws, Any]:
    """Run a program as `pulumi up` would. Return the simulated account and the value of the program's output.

    Raises any exception of the program, including exceptions that are raised later in an apply.
    """
    aws = KnownAws(answers)
    return aws, deploy_on(aws, program)
