"""`Cleanup`: a CronJob that reports unused objects in the teams' namespaces, and deletes them if configured."""

from __future__ import annotations

import base64
import json

import pulumi

from components._in_namespace import (
    grant,
    immutable_config_map,
    own_namespace,
    restricted_container,
    restricted_pod,
)
from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from gpu_platform.base import names
from gpu_platform.cleanup.kinds import KINDS, REPLICA_SET
from gpu_platform.cleanup.packed import build_cleanup
from gpu_platform.planning.cleanup.section import CleanupPlan

_NAME = "gpu-cleanup"
_PROGRAM, _SETTINGS = "cleanup.pyz", "settings.json"
_PROGRAM_DIR, _SETTINGS_DIR = "/opt/cleanup", "/etc/gpu-platform"
# A run lists only a few kinds of objects in each namespace. A run that takes longer is stuck.
_DEADLINE_SECONDS = 600
_DEADLINE_OF_A_TEAM_SECONDS = 5
_REQUESTS = {"cpu": "50m", "memory": "64Mi"}
_LIMITS = {"memory": "512Mi"}
_KEPT_RUNS = 3


class Cleanup(pulumi.ComponentResource):
    """A CronJob with a service account that may list objects in the teams' namespaces, and delete them if
    configured.

    Outputs: `schedule`.
    """

    schedule: pulumi.Output[str]

    def __init__(self, name: str, args: CleanupPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Cleanup", name, None, opts)
        namespace = own_namespace(args.namespace, "restricted", child_options(self, opts))
        self._args = args
        self._child = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        self._meta = {"name": _NAME, "namespace": args.namespace}
        KubernetesObject(_NAME, "v1/ServiceAccount", metadata=self._meta, opts=self._child)
        KubernetesObject(
            _NAME,
            "networking.k8s.io/v1/NetworkPolicy",
            metadata=self._meta,
            spec={"podSelector": {}, "policyTypes": ["Ingress"]},
            opts=self._child,
        )
        report = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]}]
        account = {"kind": "ServiceAccount", "name": _NAME, "namespace": args.namespace}
        rights = {args.namespace: report} | dict.fromkeys(args.teams, _rules(delete=args.delete))
        for place, rules in rights.items():
            grant(f"{_NAME}-{place}", account, place, rules, self._child)
        self._create_cron_job()
        self.schedule = pulumi.Output.from_input(args.schedule)
        self.register_outputs({"schedule": self.schedule})

    def _create_cron_job(self) -> None:
        args = self._args
        settings = {
            "namespace": args.namespace,
            "delete": args.delete,
            "finished_after": args.finished_after,
            "idle_after": args.idle_after,
            "prometheus": args.prometheus,
            "teams": {team: list(declared) for team, declared in args.teams.items()},
        }
        packed = {_PROGRAM: base64.b64encode(build_cleanup()).decode()}
        program, _ = immutable_config_map(_NAME, args.namespace, self._child, binary=packed)
        written = {_SETTINGS: json.dumps(settings, indent=1)}
        config, _ = immutable_config_map(f"{_NAME}-settings", args.namespace, self._child, text=written)
        labels = {names.NAME_LABEL: _NAME}
        template = {"metadata": {"labels": labels}, "spec": _pod(args.image, program, config)}
        deadline = _DEADLINE_SECONDS + _DEADLINE_OF_A_TEAM_SECONDS * len(args.teams)
        job = {"backoffLimit": 0, "activeDeadlineSeconds": deadline, "template": template}
        KubernetesObject(
            _NAME,
            "batch/v1/CronJob",
            metadata=self._meta,
            spec={
                "schedule": args.schedule,
                "timeZone": "Etc/UTC",
                "concurrencyPolicy": "Forbid",
                "successfulJobsHistoryLimit": _KEPT_RUNS,
                "failedJobsHistoryLimit": _KEPT_RUNS,
                "jobTemplate": {"spec": job},
            },
            opts=self._child,
        )


def _rules(*, delete: bool) -> list[Manifest]:
    """Return the rules of the account's Role in a team's namespace. Without `delete`, the account can only list
    objects.
    """
    verbs = ["list", "delete"] if delete else ["list"]
    groups: dict[str, list[str]] = {}
    for kind in KINDS:
        groups.setdefault(kind.group, []).append(kind.plural)
    rules = [{"apiGroups": [group], "resources": plurals, "verbs": verbs} for group, plurals in groups.items()]
    rules.append({"apiGroups": [REPLICA_SET.group], "resources": [REPLICA_SET.plural], "verbs": ["list"]})
    if delete:
        rules.append({"apiGroups": [""], "resources": ["events"], "verbs": ["create"]})
    return rules


def _pod(image: str, program: str, config: str) -> Manifest:
    return {
        "serviceAccountName": _NAME,
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "securityContext": restricted_pod(),
        "volumes": [
            {"name": name, "configMap": {"name": config_map}}
            for name, config_map in (("program", program), ("settings", config))
        ],
        "containers": [
            {
                "name": "cleanup",
                "image": image,
                "command": ["python", f"{_PROGRAM_DIR}/{_PROGRAM}", f"{_SETTINGS_DIR}/{_SETTINGS}"],
                "resources": {"requests": _REQUESTS, "limits": _LIMITS},
                "securityContext": restricted_container(),
                "volumeMounts": [
                    {"name": name, "mountPath": path, "readOnly": True}
                    for name, path in (("program", _PROGRAM_DIR), ("settings", _SETTINGS_DIR))
                ],
            }
        ],
    }
