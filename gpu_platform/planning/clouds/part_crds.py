"""Decide whether the CRDs of a cluster have the fields that a stack needs, and whether Helm can upgrade the CRDs.

Helm refuses to install a chart if an object from its templates already exists without the label and annotations of
the release. Source: helm.sh/helm, pkg/action/validate.go (checkOwnership); read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from gpu_platform.base.errors import Problem
from gpu_platform.catalog.models import Chart, CrdField
from gpu_platform.planning.clouds.parts import HelmRelease, PartPlan

Definitions = Mapping[str, Mapping[str, Any]]
"""A cluster's CustomResourceDefinitions, by name."""
MANAGED_BY = "app.kubernetes.io/managed-by"
RELEASE = ("meta.helm.sh/release-namespace", "meta.helm.sh/release-name")


def definition_names(parts: Iterable[PartPlan]) -> tuple[str, ...]:
    """Return the names of the CRDs that `crd_problems` checks."""
    charts = [(part, part.chart) for part in parts if part.chart is not None]
    return tuple(
        dict.fromkeys(
            name
            for part, chart in charts
            for name in (*(one.crd for one in chart.crd_fields), *(chart.crd_names if part.install else ()))
        )
    )


def crd_problems(
    parts: Iterable[PartPlan], definitions: Definitions, needs: Callable[[CrdField], bool]
) -> Iterator[Problem]:
    """Yield a problem for each controller whose CRDs lack a needed field, or whose CRDs Helm would refuse.

    `needs` returns whether the stack needs a field.
    """
    for part in parts:
        if part.chart is None:
            continue
        fields = [one for one in missing_fields(part, definitions) if needs(one)]
        if not part.install and fields:
            yield Problem(
                part.place,
                f"present, but {lacks(fields, definitions)}",
                needed(fields),
                f"ask the owner to upgrade {part.title} with its CRDs; nothing was changed",
            )
        elif fields:
            yield Problem(
                part.place,
                f"install, but {lacks(fields, definitions)}, and Helm does not upgrade existing CRDs",
                f"the CRDs of {part.chart.name} {part.chart.version}",
                f"run `{part.chart.crds_command}`; nothing was changed",
            )
        elif part.install and (names := unowned(part.chart, definitions)):
            yield Problem(
                part.place,
                f"install, but the cluster has the CRDs {', '.join(names)} of another installation",
                f"CRDs of Helm release {part.chart.namespace}/{part.chart.name}, because "
                "Helm refuses CRDs of any other release",
                f"run `{adopting(part.chart, names)}` to make this release the owner of the CRDs; "
                "nothing was changed",
            )


def missing_fields(part: PartPlan, definitions: Definitions) -> tuple[CrdField, ...]:
    """Return the fields of a controller that are missing in the cluster's CRDs.

    If a whole CRD is missing, its fields count only if the owner installs the controller. CRDs in templates are
    upgraded with the chart.
    """
    chart = part.chart
    if chart is None or (part.install and chart.crds == "templates"):
        return ()
    fields = [one for one in chart.crd_fields if one.crd in definitions] if part.install else needed_of_owner(part)
    return tuple(one for one in fields if not _has_field(definitions.get(one.crd, {}), one))


def needed_of_owner(part: PartPlan) -> tuple[CrdField, ...]:
    """Return the CRD fields that some stacks need from a controller that the owner installs."""
    return tuple(one for one in part.chart.crd_fields if not one.only_installed) if part.chart is not None else ()


def lacks(fields: Sequence[CrdField], definitions: Definitions) -> str:
    """Name the fields or CRDs that the cluster lacks, as text."""
    return " and ".join(
        f"its CRD {one.crd} has no {one.field or f'version {one.version}'}"
        if one.crd in definitions
        else f"the cluster has no CRD {one.crd}"
        for one in fields
    )


def needed(fields: Sequence[CrdField]) -> str:
    """Return the oldest controller releases that have the fields, with the reasons why the fields are needed."""
    reasons: dict[str, list[str]] = {}
    for one in fields:
        reasons.setdefault(one.release, []).append(one.why)
    return "; ".join(f"{release} or newer: {', and '.join(why)}" for release, why in reasons.items())


def unowned(chart: Chart, definitions: Definitions) -> tuple[str, ...]:
    """Return the CRDs in a chart's templates that exist and do not belong to the program's release."""
    return tuple(
        name
        for name in chart.crd_names
        if name in definitions and _release(definitions[name]) != (chart.namespace, chart.name)
    )


def adopting(chart: Chart, names: Collection[str]) -> str:
    """Return the commands that make the program's release the owner of CRDs."""
    crds, (namespace, name) = " ".join(names), RELEASE
    return (
        f"kubectl label --overwrite crd {crds} {MANAGED_BY}=Helm && kubectl annotate --overwrite crd {crds} "
        f"{namespace}={chart.namespace} {name}={chart.name}"
    )


def upgraded_folders(
    charts: Iterable[Chart], deployed: Mapping[HelmRelease, str], installed: Collection[str]
) -> Iterator[str]:
    """Yield a warning for each chart that `up` upgrades without its CRDs, because Helm does not upgrade the CRDs
    in a chart's `crds` folder.

    `deployed` contains the chart version of each release that the last `up` deployed. `installed` contains the
    names of the releases that the next `up` installs.
    """
    for chart in charts:
        version = deployed.get((chart.namespace, chart.name), chart.version)
        if chart.crds == "folder" and version != chart.version and chart.name in installed:
            yield (
                f"`up` upgrades chart {chart.name} from {version} to {chart.version}, and Helm does not upgrade "
                f"its CRDs: run `{chart.crds_command}` first"
            )


def writes(manifests: Iterable[Mapping[str, Any]], one: CrdField) -> bool:
    """Return whether any of the program's objects sets a CRD field."""
    return any(
        f"{manifest['kind'].lower()}s.{manifest['apiVersion'].rpartition('/')[0]}" == one.crd
        and _is_set(manifest, one.field.split(".") if one.field else ())
        for manifest in manifests
    )


def _is_set(value: object, path: Sequence[str]) -> bool:
    if not path:
        return True
    key, rest = path[0], path[1:]
    found = cast("Mapping[str, object]", value).get(key.removesuffix("[]")) if isinstance(value, Mapping) else None
    if key.endswith("[]"):
        return isinstance(found, Sequence) and any(_is_set(item, rest) for item in cast("Sequence[object]", found))
    return found is not None and _is_set(found, rest)


def _has_field(definition: Mapping[str, Any], one: CrdField) -> bool:
    """Return whether a CRD serves a version whose schema contains a field."""
    for version in definition.get("spec", {}).get("versions", ()):
        if version["name"] == one.version and version.get("served", True):
            schema = version.get("schema", {}).get("openAPIV3Schema", {})
            return _in_schema(schema, one.field.split(".") if one.field else ())
    return False


def _in_schema(schema: Mapping[str, Any], path: Sequence[str]) -> bool:
    if not path or schema.get("x-kubernetes-preserve-unknown-fields"):
        return True
    inner = schema.get("properties", {}).get(path[0].removesuffix("[]"))
    if inner is None:
        return False
    return _in_schema(inner.get("items", {}) if path[0].endswith("[]") else inner, path[1:])


def _release(definition: Mapping[str, Any]) -> HelmRelease | None:
    """Return the Helm release that owns a CRD, or None."""
    metadata = definition.get("metadata", {})
    annotations = metadata.get("annotations") or {}
    if (metadata.get("labels") or {}).get(MANAGED_BY) != "Helm":
        return None
    namespace, name = (str(annotations.get(key, "")) for key in RELEASE)
    return namespace, name
