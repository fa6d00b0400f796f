"""`Team`: the stack of a team, on an environment that another stack deploys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pulumi

from components._objects import with_object_settings
from components._options import child_of_stack
from components.cluster import ANNOTATIONS_OUTPUT, IDENTITY_OUTPUT, Cluster, ClusterArgs
from components.team_namespace import TeamNamespace, TeamNamespaceArgs
from components.team_volumes import TeamVolumes, TeamVolumesArgs
from gpu_platform.planning.changes import protected, team_facts
from gpu_platform.planning.guide import guide_of
from gpu_platform.planning.plan import TeamStackPlan
from gpu_platform.planning.queues import queue_of
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.planning.workloads import workloads_of


class Team(pulumi.ComponentResource):
    """A team on the cluster of its environment. The component reads the environment's outputs through a stack
    reference.

    Outputs: `namespaces`, `teams`.
    """

    exports: dict[str, Any]
    """Outputs of the stack."""

    def __init__(self, name: str, args: TeamStackPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Team", name, None, with_object_settings(opts, args.objects))
        stack = args.environment_stack
        if "/" not in stack:
            stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}"
        environment = pulumi.StackReference(args.environment_stack, stack_name=stack)
        checked = environment.outputs.apply(lambda outputs: _deployed(args.environment_stack, outputs))
        # Wait for the check, because outputs of an undeployed environment contain no kubeconfig.
        # Without a kubeconfig, the provider would use the default kubeconfig, maybe of another cluster.
        kubeconfig = pulumi.Output.all(environment.get_output("kubeconfig"), checked).apply(lambda both: both[0])
        cluster_args = ClusterArgs(
            plan=args.cluster, kubeconfig=kubeconfig, identity=environment.get_output(IDENTITY_OUTPUT)
        )
        cluster = Cluster(args.cluster.name, cluster_args, child_of_stack(self))
        on_cluster = child_of_stack(self, providers=[cluster.provider])
        teams = [
            TeamNamespace(
                team.namespace,
                TeamNamespaceArgs(
                    plan=team,
                    queue=queue_of(team.namespace, args.queues),
                    guide=guide_of(team.namespace, args.guides),
                    workloads=workloads_of(team.namespace, args.workloads),
                    annotations=_annotations(team, environment, args.environment_stack),
                ),
                on_cluster,
            )
            for team in args.teams
        ]
        if args.volumes:
            after = child_of_stack(self, providers=[cluster.provider], depends_on=teams)
            TeamVolumes("team-volumes", TeamVolumesArgs(volumes=args.volumes), after)
        self.exports = {
            "namespaces": [team.namespace for team in teams],
            "environment": args.environment_stack,
            "protected": list(protected(args)),
            "teams": dict(team_facts(args)),
        }
        self.register_outputs(self.exports)


def _deployed(stack: str, outputs: Mapping[str, Any]) -> bool:
    """Return True if the outputs come from a deployed environment. Raise RunError if it is not deployed."""
    if "operator" in outputs:
        return True
    raise pulumi.RunError(
        f"stack {stack!r}, the environment of this team, is not deployed: run `gpu-platform up {stack}` first"
    )


def _annotations(
    team: TeamPlan, environment: pulumi.StackReference, stack: str
) -> Mapping[str, pulumi.Output[str]]:
    """Return the annotations of the team's service account that only the environment knows."""
    account = team.service_account
    later = [key for key, value in account.annotations.items() if value is None] if account is not None else []
    found = environment.get_output(ANNOTATIONS_OUTPUT)
    return {key: found.apply(partial(_annotation, team.namespace, key, stack)) for key in later}


def _annotation(team: str, key: str, stack: str, found: Mapping[str, Mapping[str, str]] | None) -> str:
    """Return an annotation. Raise RunError if the environment has not created the team's identity."""
    if found is None or team not in found:
        raise pulumi.RunError(
            f"stack {stack!r}, the environment of this team, has not created the identity of team {team!r}: run "
            f"`gpu-platform up {stack}` first"
        )
    return found[team][key]
