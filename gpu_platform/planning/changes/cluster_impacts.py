"""Stack output with the cluster's settings, and the impact of changing them. Impacts on pools are in other
modules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_platform.base.errors import Problem
from gpu_platform.planning.changes.deployed import (
    NOT_DEPLOYED,
    VOLUMES,
    mapping_of,
    teams_of,
    texts_of,
    texts_of_volumes,
)
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact, Part, Phase
from gpu_platform.planning.clouds.identities import SERVICE_ACCOUNT
from gpu_platform.planning.clouds.section import ClusterSetting
from gpu_platform.planning.plan import EnvironmentPlan, Plan

_RETAINED = "retained"
_TEAM_VOLUMES = "team_volumes"


def cluster_facts(plan: EnvironmentPlan) -> Mapping[str, Any]:
    """Return the stack output `cluster`, with the settings by name and the resources that `destroy` retains.

    A setting is a number or a list of strings.
    """
    cloud = plan.cluster.cloud
    if cloud is None:
        return {}
    return {
        **{setting.name: _json(setting) for setting in _settings(plan)},
        _RETAINED: list(_retained(plan)),
    }


def retained_resources(outputs: Mapping[str, Any], plan: Plan) -> tuple[str, ...]:
    """Return the resources that `destroy` retains. They come from the last deployment or, if there is none, from
    the plan.
    """
    if plan.kind != "environment" or plan.cluster.cloud is None:
        return ()
    before = mapping_of(outputs.get("cluster"))
    return tuple(texts_of(before[_RETAINED])) if _RETAINED in before else _retained(plan)


def objects_of_volumes(outputs: Mapping[str, Any]) -> frozenset[tuple[str, str, str]]:
    """Return the kind, namespace and name of each claim and volume that was deployed for a team's mounted storage.

    Deleting these objects deletes no data, because the storage has another owner and is retained.
    """
    volumes = texts_of(mapping_of(outputs.get("cluster")).get(_TEAM_VOLUMES))
    for facts in teams_of(outputs).values():
        volumes += texts_of(facts.get(VOLUMES))
    found: set[tuple[str, str, str]] = set()
    for volume in volumes:
        namespace, _, name = volume.partition(":")[0].partition("/")
        found.add(("PersistentVolumeClaim", namespace, name))
        found.add(("PersistentVolume", "", f"{namespace}-{name}"))
    return frozenset(found)


def _settings(plan: EnvironmentPlan) -> tuple[ClusterSetting, ...]:
    """Return the settings that a preview compares with the last deployment.

    They describe the cloud, file system classes, team volumes, and the identities of teams with their own stack.
    """
    if plan.cluster.cloud is None:
        return ()
    classes = ClusterSetting(
        name="file_systems",
        what="storage classes of file systems",
        field="storage",
        values=(*(one.name for one in plan.storage.classes if one.shared), *plan.storage.created),
        loss="cuts-access",
        on_loss="files in volumes of {lost} can no longer be reached: the network access of these volumes is "
        "removed, and a driver is removed with its last storage class; move the data and delete the "
        "claims first",
    )
    volumes = ClusterSetting(
        name=_TEAM_VOLUMES,
        what="volumes of teams",
        field="storage",
        # Include teams with their own stack, because the environment grants the access that their volumes need.
        values=tuple(texts_of_volumes((*plan.storage.volumes, *plan.storage.team_stack_volumes))),
        loss="cuts-access",
        on_loss="pods can no longer mount {lost}; nothing in it is deleted",
    )
    own = (classes, volumes, *plan.storage.settings, _identities_of_own_stacks(plan))
    return (*plan.cluster.settings, *own)


def _identities_of_own_stacks(plan: EnvironmentPlan) -> ClusterSetting:
    """Return the cloud rights of teams with their own stack. The output `teams` contains the rights of other
    teams.
    """
    declared = {team_plan.namespace for team_plan in plan.teams}
    rights: Mapping[str, tuple[str, ...]] = plan.identities.rights if plan.identities is not None else {}
    return ClusterSetting(
        name="team_identities",
        what="identities of teams with their own stack",
        field="team_identities",
        values=tuple(
            f"{team}: {right}" for team, found in rights.items() if team not in declared for right in found
        ),
        loss="cuts-access",
        on_loss=f"pods with the service account {SERVICE_ACCOUNT} lose their rights ({{lost}})",
    )


def _retained(plan: EnvironmentPlan) -> tuple[str, ...]:
    of_cluster = plan.cluster.cloud.retained if plan.cluster.cloud is not None else ()
    return (*of_cluster, *plan.storage.retained)


def resizes_system_nodes(previous: object, plan: EnvironmentPlan) -> bool:
    """Return whether the node count of the system nodes was edited in the stack file.

    `previous` is the output `cluster` of the last deployment.
    """
    before = mapping_of(previous)
    return any(
        setting.resizes and setting.name in before and _values(before[setting.name]) != _values(_json(setting))
        for setting in _settings(plan)
    )


def impacts_of_cluster(previous: object, plan: EnvironmentPlan) -> Iterator[Impact]:
    """Yield the impact of each changed cluster setting. `previous` is the output `cluster` of the last deployment.

    A setting is compared only if both the output and the plan contain it. For example, a cluster may have no
    Karpenter, or an older release may not have written the setting.
    """
    before = mapping_of(previous)
    for setting in _settings(plan):
        if setting.name not in before:
            continue
        old, new = _values(before[setting.name]), _values(_json(setting))
        if old == new:
            continue
        lost = _lost(old, new)
        lossy = bool(lost) or setting.fixed
        effect = Effect(setting.loss if lossy else setting.gain)
        because = setting.on_loss.format(lost=", ".join(lost)) if lossy else setting.on_gain
        refusal = _refusal(setting, old, new) if setting.fixed else _keeps(setting, old, new, because)
        yield Impact(
            subject="cluster",
            effect=effect,
            field=setting.field,
            old=_text(setting, old),
            new=_text(setting, new),
            parts=(Part(Phase.CLUSTER if _lost(new, old) else Phase.DELETION, "cluster", setting.what),),
            changes_nodes=effect is Effect.ROLLS_NODES,
            because=because if refusal is None else f"{because}, so `up` refuses",
            refusal=refusal,
        )


def _refusal(setting: ClusterSetting, old: int | list[str], new: int | list[str]) -> Problem:
    """Return why `up` refuses to change a setting that the cloud cannot change."""
    name, text = setting.field.rpartition(".")[2], _text(setting, old)
    fix = f"write {name}: {text.partition(': ')[2]}" if old else f"remove {name}"
    return Problem(setting.field, _text(setting, new), f"{text}: {setting.on_loss}", fix)


def _keeps(setting: ClusterSetting, old: int | list[str], new: int | list[str], why: str) -> Problem | None:
    """Return why `up` refuses to remove values from a setting, or None if it allows the change.

    The suggested fix lists every value to keep, because some of them may not come from the stack file.
    """
    lost = _lost(old, new)
    if not setting.kept or not lost:
        return None
    fix = f"name {_text(setting, old).partition(': ')[2]} in {setting.field}"
    return Problem(setting.field, f"{_text(setting, new)}, without {', '.join(lost)}", why, fix)


def _json(setting: ClusterSetting) -> int | list[str]:
    return setting.values if isinstance(setting.values, int) else list(setting.values)


def _values(value: object) -> int | list[str]:
    """Return a setting's value from an output. The engines may return a number as a float."""
    return int(value) if isinstance(value, int | float) else texts_of(value)


def _lost(old: int | list[str], new: int | list[str]) -> list[str]:
    """Return the values that were removed from a list, or the decrease of a number."""
    if isinstance(old, list) and isinstance(new, list):
        return [value for value in old if value not in new]
    if isinstance(old, int) and isinstance(new, int):
        return [str(old - new)] if new < old else []
    return []


def _text(setting: ClusterSetting, values: int | list[str]) -> str:
    shown = str(values) if isinstance(values, int) else ", ".join(values) or NOT_DEPLOYED
    return f"{setting.what}: {shown}"
