"""Common interface of the Pulumi CLI and the embedded engine for `up`, `preview` and `destroy`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import yaml

from gpu_platform.base.errors import BadInput, UnknownOutcome
from gpu_platform.base.names import HELD_VARIABLE, RESIZED_VARIABLE, ROLLED_VARIABLE, SYSTEM_NODES
from gpu_platform.base.paths import POLICY_PACK, PROJECT_ROOT, STACKS_DIR_VARIABLE, sandbox_dir
from gpu_platform.base.progress import Progress
from gpu_platform.cli.parts import open_access, outdated_crds, refuse_parts
from gpu_platform.deploy.changes import Action, Change, Changes
from gpu_platform.deploy.choice import EngineName, choose_engine
from gpu_platform.deploy.embedded.apply import apply
from gpu_platform.deploy.embedded.applyset import is_deployed, stack_outputs
from gpu_platform.deploy.embedded.destroy import destroy
from gpu_platform.deploy.embedded.diff import preview
from gpu_platform.deploy.lock import StackLock
from gpu_platform.deploy.pulumi.access import changed_access, restore_access
from gpu_platform.deploy.pulumi.pulumi_cli import PulumiCli
from gpu_platform.deploy.pulumi.pulumi_engine import InterruptedCreation, PulumiEngine
from gpu_platform.deploy.pulumi.takeover import drop_former_limits, refuse_foreign_objects
from gpu_platform.deploy.recorded.objects import KubernetesObject, kubernetes_objects
from gpu_platform.deploy.recorded.record import RecordedProgram
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.deploy.taints import repair_taints
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.held_queues import held_queues
from gpu_platform.planning import plan_to_json
from gpu_platform.planning.changes import resized_node_groups, resizes_system_nodes
from gpu_platform.planning.kubernetes_versions import minor_version
from gpu_platform.planning.queues import team_queues
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack
from gpu_platform.stack.project import project_settings

ChangesDocument = Mapping[str, Any]
"""Changes as plain JSON: each change (`changes`), and counts by action (`counts`) and by action and kind
(`kinds`).
"""


class Deployment(Protocol):
    """Deployment of a stack by the engine that was chosen for it."""

    @property
    def engine(self) -> str:
        """Name of the engine."""
        ...

    @property
    def why(self) -> str:
        """Reason why the engine was chosen."""
        ...

    def lock(self, command: str) -> AbstractContextManager[None]:
        """Prevent other runs from changing the stack while the context is open.

        A run that is waiting for the lock tells its user that `command` holds it.
        """
        ...

    def outputs(self) -> Mapping[str, Any] | None:
        """Return the outputs of the last deployment with masked secrets, or None if there is none."""
        ...

    def is_deployed(self) -> bool:
        """Return whether any resource of the stack exists, including resources of a deployment that did not
        finish.
        """
        ...

    def preview(self) -> ChangesDocument:
        """Return the changes that `up` would make."""
        ...

    def up(self, rolled: Mapping[str, str]) -> ChangesDocument:
        """Deploy, wait until all resources are ready, and return the changes.

        `rolled` contains, for each pool, the MIG config that all its live nodes already have. If the MIG label of
        such a pool changes, no node is disrupted.
        """
        ...

    def destroy(self) -> ChangesDocument:
        """Delete all resources of the stack and return the changes."""
        ...


@dataclass(slots=True)
class EmbeddedDeployment:
    """Deployment by the embedded engine, which uses server-side apply in this process.

    `recorded` contains the resources that the program registers without a cluster. After a `preview` in the same
    run, `up` applies only objects that need a change or that no longer match the preview.
    """

    loaded: LoadedStack
    recorded: RecordedProgram
    progress: Progress
    cluster: ClusterAccess
    why: str
    engine: str = EngineName.EMBEDDED.value
    _previewed: Changes | None = field(default=None, init=False)

    def lock(self, command: str) -> AbstractContextManager[None]:
        """Hold the stack's Lease in the cluster.

        Raises UnknownOutcome if another run holds the Lease for too long.
        """
        return StackLock(self.cluster.client(), self.loaded.stack, command, self.progress).held()

    def outputs(self) -> Mapping[str, Any] | None:
        """Return the outputs that are recorded in the cluster."""
        return stack_outputs(self.cluster.client(), self.loaded.stack)

    def is_deployed(self) -> bool:
        """Return whether the cluster contains a record of the stack."""
        return is_deployed(self.cluster.client(), self.loaded.stack)

    def preview(self) -> ChangesDocument:
        """Compare the program with the cluster in a server-side dry run."""
        client = self.cluster.client()
        refuse_parts(self.loaded, self.recorded, client, ())
        _warn_of_open_access(self.loaded, client, self.progress)
        self._previewed = preview(client, self._record(client, dry=True), upgrades=self._upgrades(client))
        return self._previewed.to_json()

    def up(self, rolled: Mapping[str, str]) -> ChangesDocument:
        """Apply the objects, wait until they are ready, and delete objects that are no longer declared."""
        del rolled  # the embedded engine changes nodes only after the MIG rollout, in this process
        client = self.cluster.client()
        refuse_parts(self.loaded, self.recorded, client, ())
        _warn_of_open_access(self.loaded, client, self.progress)
        recorded = self._record(client, dry=False)
        return apply(client, recorded, self.progress, self._previewed).to_json()

    def destroy(self) -> ChangesDocument:
        """Delete the objects of the stack."""
        return destroy(self.cluster.client(), self.loaded.stack, self.progress).to_json()

    def _upgrades(self, client: KubernetesClient) -> bool:
        """Return whether `up` upgrades the sandbox to another Kubernetes version."""
        cluster = self.loaded.plan.cluster
        declared = self.loaded.declared_kubernetes
        return cluster.access == "sandbox" and declared not in (None, minor_version(client.kubernetes_version()))

    def _record(self, client: KubernetesClient, *, dry: bool) -> RecordedProgram:
        plan = self.loaded.plan
        if plan.kind == "team" and stack_outputs(client, plan.environment_stack) is None:
            missing = (
                f"stack {plan.stack} needs its environment {plan.environment_stack!r}, which is not deployed: "
                f"run `gpu-platform up {self.loaded.environment_argument}` first"
            )
            if not dry:
                raise UnknownOutcome(missing)
            self.progress.line(f"warning: {missing}")
        if plan.kind != "team":  # an environment uses no outputs of other stacks
            return self.recorded
        return record_stack(self.loaded, preview=dry, resolve_stack=lambda name: stack_outputs(client, name))


@dataclass(frozen=True, slots=True)
class PulumiDeployment:
    """Deployment by the Pulumi CLI, with the policy pack and the stack's policy configuration."""

    loaded: LoadedStack
    recorded: RecordedProgram
    progress: Progress
    cluster: ClusterAccess
    cli: PulumiCli
    engine: str = EngineName.PULUMI.value

    @property
    def why(self) -> str:
        """Path and version of the CLI, and its backend."""
        return self.cli.why

    def lock(self, command: str) -> AbstractContextManager[None]:
        """Do nothing, because the backend of the Pulumi CLI locks the stack."""
        del command
        return nullcontext()

    def outputs(self) -> Mapping[str, Any] | None:
        """Run `pulumi stack output`."""
        with self._driver() as driver:
            return driver.outputs()

    def is_deployed(self) -> bool:
        """Return whether the state of the stack contains resources or interrupted creations."""
        with self._driver() as driver:
            return not driver.is_empty() or bool(driver.interrupted_creations())

    def preview(self) -> ChangesDocument:
        """Run `pulumi preview`."""
        with self._driver({**self._resized(), **self._held()}) as driver:
            self._refuse_interrupted_creations(driver)
            self._refuse_foreign_objects(driver)
            changes = driver.preview()
        changes = self._without_released(changes, dry_run=True)
        return _with_access(changes, self._access(changed_access)).to_json()

    def up(self, rolled: Mapping[str, str]) -> ChangesDocument:
        """Run `pulumi up`."""
        try:
            env = {ROLLED_VARIABLE: json.dumps(dict(rolled)), **self._resized(), **self._held()}
            with self._driver(env) as driver:
                self._refuse_first_up(driver)
                self._refuse_interrupted_creations(driver)
                self._refuse_foreign_objects(driver, dry_run=False)
                self._repair_taints()
                changes = driver.up()
        finally:
            self.cluster.forget()  # the cluster may have been created or replaced
        # The CLI applies the declared changes first.
        # Only then is the declared access restored.
        access = self._access(restore_access)
        changes = self._without_released(changes)
        self._settle(self.loaded.plan.teams)
        return _with_access(changes, access).to_json()

    def destroy(self) -> ChangesDocument:
        """Run `pulumi destroy`."""
        with self._driver() as driver:
            if interrupted := driver.interrupted_creations():
                # Resources of an interrupted creation are not deleted, and may block the deletion of other
                # resources.
                self.progress.line(f"warning: {_interrupted(self.loaded.stack, interrupted)}")
            changes = driver.destroy().to_json()
        cloud = self.loaded.plan.cluster.cloud
        if self.loaded.plan.kind == "team" or cloud is None or cloud.create is None:  # the cluster was not deleted
            self._settle(())
        return changes

    def _resized(self) -> Mapping[str, str]:
        """Return an environment variable that lists the node groups whose size this run sets.

        Autoscalers and schedules set the size of all other node groups.
        """
        plan = self.loaded.plan
        if plan.kind == "team" or plan.cluster.cloud is None:
            return {}
        outputs = self.outputs() or {}
        resized = list(resized_node_groups(outputs.get("pools"), plan, datetime.now(UTC)))
        if resizes_system_nodes(outputs.get("cluster"), plan):
            resized.append(SYSTEM_NODES)
        return {RESIZED_VARIABLE: json.dumps(resized)}

    def _held(self) -> Mapping[str, str]:
        """Return an environment variable that lists the held queues. The list is empty if the cluster does not
        answer.

        The CLI keeps these queues held and does not wait for them. The program declares their stopPolicy, because
        otherwise the provider would remove the value that was set with kubectl.
        """
        queues = team_queues(self.loaded.plan.queues)
        held: dict[str, dict[str, str]] = {}
        if queues:
            with suppress(Refused, UnknownOutcome):
                for one in held_queues(self.cluster.client(), queues):
                    held.setdefault(one.team, {})[one.kind] = one.policy
        return {HELD_VARIABLE: json.dumps(held, sort_keys=True)}

    def _refuse_first_up(self, driver: PulumiEngine) -> None:
        """Raise BadInput, before anything is changed, if the first `up`, which creates the cluster, could not
        finish.
        """
        cloud = self.loaded.plan.cluster.cloud
        problem = cloud.first_up_problem if cloud is not None and self.loaded.plan.kind == "environment" else None
        if problem is not None and driver.is_empty():
            raise BadInput(str(self.loaded.path), [problem])

    def _refuse_interrupted_creations(self, driver: PulumiEngine) -> None:
        """Raise UnknownOutcome, before anything is changed, if `up` might create resources a second time and cause
        additional cost.

        Each creation uses unique names for cloud resources, so the cloud does not refuse a second creation.
        """
        if interrupted := driver.interrupted_creations():
            raise UnknownOutcome(
                f"{_interrupted(self.loaded.stack, interrupted)}. Then run the same command again. If you "
                "run it earlier, it creates the resources a second time"
            )

    def _refuse_foreign_objects(self, driver: PulumiEngine, *, dry_run: bool = True) -> None:
        """Raise Finding if others own a declared object. Prepare the objects that the CLI takes over, unless
        `dry_run`.
        """
        declared = kubernetes_objects(self.recorded.resources)
        try:
            client = self._client_to_look()
            releases = driver.helm_releases()
            refuse_parts(self.loaded, self.recorded, client, releases)
            for one in outdated_crds(self.loaded, self.recorded, releases):
                self.progress.line(f"warning: {one}")
            _warn_of_open_access(self.loaded, client, self.progress)
            taken = refuse_foreign_objects(client, self.loaded.stack, declared, driver.objects())
            if not dry_run:
                drop_former_limits(client, taken)
        except UnknownOutcome as reason:  # the cluster does not exist yet, or the CLI reports the error itself
            self.progress.line(
                f"the cluster was not read, so it is unknown whether others own some of the objects: {reason}"
            )

    def _client_to_look(self) -> KubernetesClient:
        """Return a client that can read the cluster.

        Before the first `up`, the credentials for an existing cluster come from the cloud's API.
        """
        try:
            return self.cluster.client()
        except UnknownOutcome:
            # The cloud's SDK is an optional extra, and its import takes time.
            from gpu_platform.online.first_look import existing_cluster_client

            plan = self.loaded.plan
            found = existing_cluster_client(plan) if plan.kind == "environment" else None
            if found is None:
                raise
            return found

    def _repair_taints(self) -> None:
        """Restore declared taints that somebody removed. Pulumi sets taints only on nodes that it creates."""
        plan = self.loaded.plan
        pools = plan.pools if plan.kind == "environment" else ()
        declared = {
            node: [
                {"key": taint.key, "value": taint.value, "effect": taint.effect}
                for taint in (*pool.taints, *pool.startup_taints)
            ]
            for pool in pools
            if pool.nodes.ownership == "created"
            for node in pool.nodes.names
        }
        for node in repair_taints(self.cluster.client(), declared) if declared else ():
            self.progress.line(f"{node}: the stack's taints were set again")

    def _access(
        self, look: Callable[[KubernetesClient, Sequence[KubernetesObject]], Sequence[Change]]
    ) -> Sequence[Change]:
        """Return the changes that others made to declared access. The function `look` finds or reverts them."""
        try:
            return look(self.cluster.client(), kubernetes_objects(self.recorded.resources))
        except (Refused, UnknownOutcome) as reason:
            self.progress.line(f"access that others changed could not be read or restored: {reason}")
            return ()

    def _without_released(self, changes: Changes, *, dry_run: bool = False) -> Changes:
        """Delete the policies and limits that Pulumi left behind in namespaces of teams that stay."""
        teams = [team.namespace for team in self.loaded.plan.teams]
        try:
            return kept_namespaces.delete_released(self.cluster.client(), changes, teams, dry_run=dry_run)
        except (Refused, UnknownOutcome) as reason:
            self.progress.line(
                "policies and limits that the stack no longer declares could not be deleted. Delete those that "
                f"are reported as retained: {reason}"
            )
            return changes

    def _settle(self, teams: Collection[TeamPlan]) -> None:
        """Mark the namespaces of removed teams as retained, and delete empty namespaces.

        Pulumi neither labels nor deletes these namespaces.
        """
        try:
            kept_namespaces.settle(
                self.cluster.client(),
                self.loaded.stack,
                [team.namespace for team in teams],
                self.progress,
                by_policy=[team.namespace for team in teams if team.fabric is not None],
            )
        except (Refused, UnknownOutcome) as reason:
            self.progress.line(
                "namespaces of teams that left the stack could not be marked as retained (the next "
                f"`gpu-platform up` will mark them): {reason}"
            )

    @contextmanager
    def _driver(self, env: Mapping[str, str] | None = None) -> Generator[PulumiEngine]:
        folder = self.loaded.path.resolve().parent
        with tempfile.TemporaryDirectory() as scratch:
            policies = Path(scratch) / "policies.json"
            policies.write_text(json.dumps(plan_to_json(self.loaded.plan.policy.config)), "utf-8")
            yield PulumiEngine(
                self.cli,
                self.loaded.stack,
                project=PROJECT_ROOT if folder == PROJECT_ROOT / "stacks" else _project_for(folder, Path(scratch)),
                policy_packs=[POLICY_PACK],
                policy_configs=[policies],
                env={STACKS_DIR_VARIABLE: str(folder), **_same_python(), **(env or {})},
                on_output=self.progress.line,
            )


def _same_python() -> Mapping[str, str]:
    """Return environment variables that make the CLI use this Python and the project's modules.

    The Pulumi project and the policy pack then do not have to name a virtual environment.
    """
    search = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(PROJECT_ROOT)}
    return {
        name: os.pathsep.join([folder, *filter(None, [os.environ.get(name)])]) for name, folder in search.items()
    }


def _project_for(folder: Path, scratch: Path) -> Path:
    """Return the folder of a temporary Pulumi project that runs this program with stack files from another folder.

    The CLI finds stack files only through the project's stackConfigDir, a path relative to Pulumi.yaml. It writes
    its encryption salt into the stack files.
    """
    project: dict[str, Any] = {**project_settings()}
    project |= {"main": str(PROJECT_ROOT), "stackConfigDir": os.path.relpath(folder, scratch.resolve())}
    project["runtime"]["options"]["virtualenv"] = sys.prefix
    (scratch / "Pulumi.yaml").write_text(yaml.safe_dump(project), "utf-8")
    return scratch


def choose_deployment(
    loaded: LoadedStack, recorded: RecordedProgram, requested: str, progress: Progress, cluster: ClusterAccess
) -> Deployment:
    """Choose the engine for a stack. If the stack uses a sandbox, the sandbox must already be running.

    Raises BadInput if only the embedded engine is available and it cannot deploy the stack.
    """
    choice = choose_engine(
        recorded, requested, sandbox=_in_sandbox(loaded), already_embedded=_is_embedded(loaded, cluster)
    )
    if choice.cli is None:
        return EmbeddedDeployment(loaded, recorded, progress, cluster, choice.why)
    return PulumiDeployment(loaded, recorded, progress, cluster, choice.cli)


def _in_sandbox(loaded: LoadedStack) -> bool:
    """Return whether the cluster is a sandbox, even if the stack file describes it as an existing cluster."""
    cluster = loaded.plan.cluster
    if cluster.access != "kubeconfig" or not cluster.kubeconfig:
        return cluster.access == "sandbox"
    return Path(cluster.kubeconfig).expanduser().resolve().is_relative_to(sandbox_dir("").resolve())


def _is_embedded(loaded: LoadedStack, cluster: ClusterAccess) -> bool:
    """Return whether the embedded engine has deployed the stack. This is possible only in a sandbox."""
    if loaded.plan.cluster.access != "sandbox":
        return False
    return is_deployed(cluster.client(), loaded.stack)


def _with_access(found: Changes, access: Collection[Change]) -> Changes:
    """Return the changes that the Pulumi CLI reports, plus the access changes, which it does not report."""
    changed = {change.key: change for change in access}
    others = [one for one in found.changes if one.key not in changed or one.action is not Action.UNCHANGED]
    seen = {one.key for one in others}
    return Changes(found.stack, (*others, *(one for key, one in changed.items() if key not in seen)))


def _interrupted(stack: str, creations: Sequence[InterruptedCreation]) -> str:
    """Return which creations did not finish, and how to clear them."""
    pulumi = f"pulumi -C {PROJECT_ROOT}"
    names = "".join(
        f"\n  {one.type} {one.name}" + (f" (deleted by `{one.deleted_by}`)" if one.deleted_by else "")
        for one in creations
    )
    return (
        "the stack's state does not record that the creation of these resources ended (their names in the cloud "
        f"begin with these):{names}\n"
        f"If another update runs, wait for it. If it was killed and has left its lock, run `{pulumi} cancel --yes "
        f"--stack {stack}`. Delete the resources that exist, then run `{pulumi} refresh --yes --stack {stack} "
        "--clear-pending-creates`"
    )


def _warn_of_open_access(loaded: LoadedStack, client: KubernetesClient, progress: Progress) -> None:
    for one in open_access(loaded, client):
        progress.line(f"warning: {one}")
