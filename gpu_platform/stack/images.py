"""Stack file field `images`: from which registry the program's own container images come."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.stack._types import SecretName, SpecModel
from gpu_platform.stack.patterns import worded

Registry = Annotated[
    str,
    Field(
        pattern=worded(r"^[a-z0-9.-]+(:\d+)?$", "the host of a registry, with its port if it has one"),
        examples=["docker.io"],
    ),
]
RegistryPath = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9.-]*(:\d+)?(/[a-z0-9][a-z0-9._-]*)*$", examples=["registry.example.com/mirror"]
    ),
]


class Images(SpecModel):
    """From which registry the images of the program's own pods come, and with which Secret nodes pull them.

    Images inside Helm charts are named by values of the charts; those of teams' workloads by the teams.
    """

    mirror: RegistryPath | None = None
    """Registry, with a path or without, that has every image below the name of its own registry:
    registry.example.com/mirror/docker.io/library/python. `skopeo sync --scoped` copies images so. Unset: each
    image's own registry."""
    registries: Annotated[dict[Registry, RegistryPath], Field(max_length=20)] = {}
    """Where images of one registry are instead, under their own repositories, such as in a pull-through cache:
    docker.io: 123456789012.dkr.ecr.us-east-2.amazonaws.com/docker-hub. They go before `mirror`."""
    pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=10)] = ()
    """Names of Secrets of type kubernetes.io/dockerconfigjson, never their content. Each must be in every
    namespace that `gpu-platform images` names beside it."""
