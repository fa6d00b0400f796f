"""Registers strings that YAML treats specially, and two objects of different kinds with the same name."""

import pulumi_kubernetes as k8s

k8s.core.v1.ConfigMap(
    "texts",
    metadata={"name": "texts", "namespace": "default"},
    data={
        "config.yaml": "version: v1\nflags:\n  migStrategy: none\n",
        "number": "1.0",
        "truth": "yes",
        "nothing": "",
        "tabs": "a\tb\n c \n\n",
        "colon": "a: b # c",
        "unit": "20 °C × 3",
    },
)
for name, group in (("first-queue", "one.example.com"), ("second-queue", "two.example.com")):
    k8s.apiextensions.CustomResource(
        name, api_version=f"{group}/v1", kind="Queue", metadata={"name": "a", "namespace": "default"}, spec={}
    )
