"""Registers a component with a Namespace and a dependent ConfigMap, a Secret, an explicit provider and outputs."""

import json
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
from pulumi_kubernetes.core.v1 import ConfigMap, Namespace, Secret

config = pulumi.Config("gpu-platform")
platform = json.loads(config.require("platform"))


class Team(pulumi.ComponentResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Team", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        namespace = Namespace(name, metadata={"name": name}, opts=child)
        ConfigMap(
            f"{name}-settings",
            metadata={"name": "settings", "namespace": namespace.metadata["name"]},
            data={"replicas": str(platform["replicas"])},
            opts=pulumi.ResourceOptions(parent=self, protect=True),
        )
        self.register_outputs({"namespace": namespace.metadata["name"]})


cluster = k8s.Provider("cluster", kubeconfig="~/.kube/config")
team = Team(platform["team"], pulumi.ResourceOptions(provider=cluster))
Secret(
    "token",
    metadata={"name": "token", "namespace": "default"},
    string_data={"value": config.require_secret("token")},
    opts=pulumi.ResourceOptions(
        provider=cluster, depends_on=[team], custom_timeouts=pulumi.CustomTimeouts(create="3m")
    ),
)
spec: Any = {  # keys are spelled as in the API, and not as in the types of the SDK
    "replicas": 3,
    "selector": {"matchLabels": {"app": "web"}},
    "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    },
}
k8s.apps.v1.Deployment(
    "web",
    metadata={"name": "web", "namespace": "default"},
    spec=spec,
    opts=pulumi.ResourceOptions(provider=cluster),
)
pulumi.export("team", platform["team"])
pulumi.export("share", 0.5)
pulumi.export("token", config.require_secret("token"))
