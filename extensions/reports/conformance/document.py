"""The answers as a JSON document, and as the product file of the conformance project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from extensions.reports.conformance.answers import Answer, unmet
from gpu_platform.catalog.models import AiConformance

_FILL_IN = (
    "platformName",
    "platformVersion",
    "vendorName",
    "websiteUrl",
    "repoUrl",
    "documentationUrl",
    "productLogoUrl",
)


def as_json(stack: str, conformance: AiConformance, found: Sequence[Answer]) -> Mapping[str, Any]:
    """Return the answers as plain JSON values."""
    return {
        "version": 1,
        "stack": stack,
        "conformance": conformance.version,
        "source": str(conformance.source),
        "unmet": [answer.requirement.id for answer in unmet(found)],
        "answers": [
            {
                "id": answer.requirement.id,
                "area": answer.requirement.area,
                "level": answer.requirement.level,
                "status": answer.status.value,
                "by": list(answer.by),
                "missing": answer.missing,
                "observed": list(answer.observed),
            }
            for answer in found
        ],
    }


def product_file(conformance: AiConformance, found: Sequence[Answer]) -> str:
    """Return PRODUCT.yaml: the checklist with status and notes.

    The evidence is left empty. It must be public, so the owner of the platform adds it.
    """
    spec: dict[str, list[dict[str, Any]]] = {}
    for answer in found:
        requirement = answer.requirement
        spec.setdefault(requirement.area, []).append(
            {
                "id": requirement.id,
                "description": requirement.description,
                "level": requirement.level,
                "status": answer.status.value,
                "evidence": [],
                "notes": ". ".join(filter(None, ["; ".join((*answer.by, *answer.observed)), answer.missing])),
            }
        )
    metadata = {
        "kubernetesVersion": f"v{conformance.version}",
        **dict.fromkeys(_FILL_IN, ""),
        "description": "",
        "contactEmailAddress": "",
        "k8sConformanceUrl": "",
    }
    return yaml.safe_dump({"metadata": metadata, "spec": spec}, sort_keys=False, width=1000, allow_unicode=True)
