"""Registers the objects in its configuration, with the options that the configuration contains."""

import json

import pulumi

platform = json.loads(pulumi.Config("gpu-platform").require("platform"))
registered: dict[str, pulumi.Resource] = {}

for item in platform["objects"]:
    manifest = item["manifest"]
    group_version = manifest["apiVersion"] if "/" in manifest["apiVersion"] else f"core/{manifest['apiVersion']}"
    name = item.get("name", f"{manifest['kind']}-{manifest['metadata']['name']}")
    registered[name] = pulumi.CustomResource(
        f"kubernetes:{group_version}:{manifest['kind']}",
        name,
        manifest,
        pulumi.ResourceOptions(
            depends_on=[registered[other] for other in item.get("depends_on", ())],
            custom_timeouts=pulumi.CustomTimeouts(**item["timeouts"]) if "timeouts" in item else None,
            ignore_changes=item.get("ignore_changes"),
        ),
    )

for name, value in platform.get("outputs", {}).items():
    pulumi.export(name, value)
