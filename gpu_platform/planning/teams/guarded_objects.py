"""Parameters of the admission rules for all objects in a team's namespace.

The rules are in gpu_platform/catalog/rules/objects.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.catalog.admission_rules import Value
from gpu_platform.catalog.pod_limits import PARENT_ANNOTATION
from gpu_platform.catalog.template_kinds import QUEUED_KINDS, TEMPLATE_KINDS, TRAIN_JOBS
from gpu_platform.planning.teams.object_limits import (
    LARGE,
    LARGE_KIB,
    OTHERS_KIB,
    SEVERAL_TEMPLATES,
    SEVERAL_TEMPLATES_KIB,
)


def object_values(objects: Mapping[str, Sequence[str]], *, queued: bool) -> Mapping[str, Value]:
    """Return the parameters of the admission rules for objects.

    `objects` maps each resource, such as `configmaps`, to the names of the platform's objects. `queued` indicates
    whether Kueue queues the team's pods.
    """
    return {
        "platform_objects": {resource: found for resource, found in sorted(objects.items()) if found},
        "pods_are_queued": queued,
        "parent_annotation": PARENT_ANNOTATION,
        "queued_resources": (TRAIN_JOBS[1], *(kind.resource for kind in QUEUED_KINDS)),
        "template_resources": (TRAIN_JOBS[1], *(kind.resource for kind in TEMPLATE_KINDS)),
        "large_resources": LARGE,
        "large_kib": LARGE_KIB,
        "several_templates": SEVERAL_TEMPLATES,
        "several_templates_kib": SEVERAL_TEMPLATES_KIB,
        "others_kib": OTHERS_KIB,
    }
