"""`gpu-platform images`: the container images and Helm charts that a stack uses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from gpu_platform.base.console import console
from gpu_platform.base.errors import ExitCode
from gpu_platform.base.quantity import counted
from gpu_platform.cli.tables import Column, show_table
from gpu_platform.deploy.recorded.record import HELM_RELEASE_TYPE, RecordedProgram
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack


def list_images(stack: str, *, to_json: bool) -> ExitCode:
    """Print the images in the program's own pods and in Helm values, and the charts with their repositories."""
    loaded = load_stack(stack)
    program = record_stack(loaded)
    found = images_of(program)
    if loaded.plan.kind == "environment" and loaded.plan.burn_in is not None:
        # `gpu-platform burn-in` creates these Jobs, so the recorded program does not contain them.
        for pod in (pod for pool in loaded.plan.burn_in.pools for pod in (pool.alone, pool.together) if pod):
            found.setdefault(pod.workload.image, set()).add(pod.workload.name)
    charts = charts_of(program)
    if to_json:
        documents = [{"image": image, "used_by": sorted(users)} for image, users in sorted(found.items())]
        document = {"version": 1, "stack": loaded.stack, "images": documents, "charts": charts}
        print(json.dumps({**document, "pull_secrets": pull_secrets_of(program)}, indent=2))
        return ExitCode.GOOD
    out = console()
    rows = [(image, ", ".join(sorted(users))) for image, users in sorted(found.items())]
    show_table(out, (Column("image"), Column("used by", 1, wrap=True)), rows)
    if charts:
        out.print()
        columns = (Column("chart"), Column("version"), Column("repository"))
        show_table(out, columns, [(one["chart"], one["version"], one["repository"]) for one in charts])
    secrets = pull_secrets_of(program)
    if secrets:
        out.print()
        columns = (Column("pull secret"), Column("namespace"))
        show_table(out, columns, [(one["secret"], one["namespace"]) for one in secrets])
    more = ", and the images inside the charts (`helm template` prints them for each chart)" if charts else ""
    out.print(f"{counted(len(found), 'image')}{more}", markup=False)
    return ExitCode.GOOD


def images_of(program: RecordedProgram) -> dict[str, set[str]]:
    """Return the images that the resources specify, each with the resources that use it."""
    found: dict[str, set[str]] = {}
    for resource in program.resources:
        if resource.type.startswith("kubernetes:"):
            for image in _images(resource.inputs):
                found.setdefault(image, set()).add(resource.name)
    return found


def charts_of(program: RecordedProgram) -> list[dict[str, str]]:
    """Return the Helm charts of a program, by name."""
    charts: list[dict[str, str]] = []
    for resource in program.resources:
        if resource.type != HELM_RELEASE_TYPE:
            continue
        chart = str(resource.inputs["chart"])
        own = cast("Mapping[str, Any]", resource.inputs.get("repositoryOpts") or {})
        repository, _, name = chart.rpartition("/")
        document = {"chart": name, "version": str(resource.inputs["version"])}
        charts.append({**document, "repository": str(own.get("repo") or repository)})
    return sorted(charts, key=lambda one: one["chart"])


def pull_secrets_of(program: RecordedProgram) -> list[dict[str, str]]:
    """Return the image pull Secrets of a program, each with a namespace that must contain it."""
    found = {
        (namespace, secret)
        for resource in program.resources
        if resource.type.startswith("kubernetes:")
        for namespace in [_namespace(resource.inputs)]
        for secret in _pull_secrets(resource.inputs)
    }
    return [{"namespace": namespace, "secret": secret} for namespace, secret in sorted(found)]


def _namespace(inputs: Mapping[str, Any]) -> str:
    metadata = cast("Mapping[str, Any]", inputs.get("metadata") or {})
    return str(metadata.get("namespace") or "default")


def _pull_secrets(inputs: object) -> Iterator[str]:
    """Yield the names in `imagePullSecrets` of pods and service accounts."""
    for mapping in _mappings(inputs):
        named = mapping.get("imagePullSecrets")
        for one in cast("Sequence[object]", named) if isinstance(named, (list, tuple)) else ():
            reference = cast("Mapping[str, object]", one) if isinstance(one, Mapping) else {}
            if "name" in reference:
                yield str(reference["name"])


def _images(inputs: object) -> Iterator[str]:
    """Yield the images in manifests and Helm values. An image is the value of `image`, or `repository` with an
    image name and a version.
    """
    for mapping in _mappings(inputs):
        image = _image(mapping)
        if image:
            yield image


def _mappings(value: object) -> Iterator[Mapping[str, object]]:
    """Yield a mapping and all mappings inside it, at any depth."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        yield mapping
        for inner in mapping.values():
            yield from _mappings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in cast("list[object]", value):
            yield from _mappings(inner)


def _image(mapping: Mapping[str, object]) -> str:
    image, repository = mapping.get("image"), mapping.get("repository")
    tag = mapping.get("version") or mapping.get("tag")
    if isinstance(image, str) and isinstance(repository, str) and image:
        return f"{repository}/{image}" + (f":{tag}" if tag else "")
    if isinstance(repository, str) and tag and "image" not in mapping:
        return f"{repository}:{tag}"
    is_reference = isinstance(image, str) and any(sign in image for sign in "/:@")
    return str(image) if is_reference else ""
