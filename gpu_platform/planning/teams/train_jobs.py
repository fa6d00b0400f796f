"""Admission rules of the variables, annotations and volumes that a TrainJob adds to the pods of its runtime.

A patch has neither the requests nor the deadline of its pods: tolerations and what keeps nodes are judged in the
pods. Classes, images and device requests cannot be patched.

Source: kubeflow/trainer v2.3, pkg/apis/trainer/v1alpha1/trainjob_types.go (runtimePatches); read 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpu_platform.planning.teams.admission_rule import AdmissionSubject, PodRule

GROUP: Final = "trainer.kubeflow.org"
RESOURCE: Final = "trainjobs"
PATCH: Final = AdmissionSubject(pod="each", asks="false")
CHANGES: Final = "(object.kind == 'TrainJob' && object.spec != oldObject.spec)"
"""That an update of a TrainJob changes its pods, as CEL."""

_JUDGED: Final = ("gpu-visible-devices-bypass", "gpu-device-annotation", "object-finalizer", "volume-source")
_ENV: Final = "dyn(object.spec).?trainer.?env.orValue([])"
_JOB: Final = "job.?template.?spec.?template"
VARIABLES: Final = {
    # The pods of each patch, and those that spec.trainer describes.
    "patches": "object.kind != 'TrainJob' ? [] : dyn(object.spec).?runtimePatches.orValue([]).map(patch, "
    "patch.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([]).map(job, "
    f"{{'metadata': dyn({_JOB}.?metadata.orValue({{}})), 'spec': dyn({_JOB}.?spec.orValue({{}}))}})) + "
    f"[[{{'metadata': dyn({{}}), 'spec': dyn({{'containers': [{{'env': {_ENV}}}]}})}}]]",
}
"""Variables that the rules use, as CEL."""


def train_job_rules(rules: Sequence[PodRule]) -> tuple[PodRule, ...]:
    """Return the rules of TrainJobs. `rules`: those of pods, of PATCH."""
    return tuple(
        PodRule(
            id=rule.id,
            expression=f"variables.patches.all(patch, patch.all(each, {rule.expression}))",
            message=f"in spec.trainer.env or spec.runtimePatches: {rule.message}",
        )
        for rule in rules
        if rule.id in _JUDGED
    )
