"""Registers a cloud's custom resource and a ConfigMap that uses its outputs, and calls a function of the cloud's
provider.
"""

import pulumi
from pulumi.runtime import invoke_output
from pulumi_kubernetes.core.v1 import ConfigMap


class Cluster(pulumi.CustomResource):
    endpoint: pulumi.Output[str]
    network: pulumi.Output[dict[str, str]]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(
            "aws:eks/cluster:Cluster",
            name,
            {"version": "1.34", "endpoint": None, "network": {"cidr": "10.0.0.0/16"}},
            opts,
        )


cluster = Cluster(
    "ml",
    pulumi.ResourceOptions(
        delete_before_replace=True, retain_on_delete=True, replace_on_changes=["version"], ignore_changes=["tags"]
    ),
)
zones = invoke_output("aws:index/getAvailabilityZones:getAvailabilityZones", {})
ConfigMap(
    "facts",
    metadata={"name": "facts", "namespace": "default"},
    data={
        "endpoint": pulumi.Output.concat("https://", cluster.endpoint),
        "group": cluster.network.apply(lambda network: network["group"]),
        "zone": zones.apply(lambda z: z["names"][0]),
    },
)
pulumi.export("id", cluster.id)
