"""Stack file field `images`: the registry of the program's container images."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.stack._types import SecretName, SpecModel
from gpu_platform.stack.patterns import worded

Registry = Annotated[
    str,
    Field(
        pattern=worded(r"^[a-z0-9.-]+(:\d+)?$", "the host of a registry, with its port if needed"),
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
    """Registry of the images for the program's own pods, and the Secrets that nodes use to pull them.

    Images in Helm charts are set in the values of the charts. Teams choose the images of their workloads.
    """

    mirror: RegistryPath | None = None
    """Registry, with an optional path, that contains a copy of every image. The path of a copy includes the name
    of the original registry, as in registry.example.com/mirror/docker.io/library/python. `skopeo sync --scoped`
    copies images in this way. The default is each image's original registry.
    """
    registries: Annotated[dict[Registry, RegistryPath], Field(max_length=20)] = {}
    """Replacements for single registries, such as a pull-through cache, by original registry. Repositories keep
    their names. An example is `docker.io: 123456789012.dkr.ecr.us-east-2.amazonaws.com/docker-hub`. An entry takes
    precedence over `mirror`.
    """
    pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=10)] = ()
    """Names of Secrets of type kubernetes.io/dockerconfigjson, never their content. Each Secret must exist in
    every namespace that `gpu-platform images` lists for it.
    """
