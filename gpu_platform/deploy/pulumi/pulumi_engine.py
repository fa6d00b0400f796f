"""Runs the Pulumi CLI through the Automation API, and extracts changes and errors from its output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from pulumi import automation

from gpu_platform.base.errors import Finding, UnknownOutcome
from gpu_platform.base.names import FAILED_VARIABLE
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.changes import Action, Change, Changes, FieldChange
from gpu_platform.deploy.pulumi.pulumi_cli import PulumiCli
from gpu_platform.deploy.pulumi.pulumi_output import OnlyChanges, WithoutInterruptions
from gpu_platform.deploy.recorded.properties import Json
from gpu_platform.deploy.recorded.record import (
    HELM_RELEASE_TYPE,
    KUBERNETES_PREFIX,
    KUBERNETES_PROVIDER_TYPE,
    PULUMI_PREFIX,
)
from gpu_platform.live.objects import ObjectKey, object_key

_ACTIONS: Final = {  # the individual steps of a replacement are left out
    automation.OpType.CREATE: Action.CREATE,
    automation.OpType.UPDATE: Action.UPDATE,
    automation.OpType.REPLACE: Action.REPLACE,
    automation.OpType.DELETE: Action.DELETE,
    automation.OpType.SAME: Action.UNCHANGED,
}

OnOutput = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class InterruptedCreation:
    """A resource whose creation the CLI has begun but not finished, because the CLI is still running or was
    killed.

    `name` is Pulumi's name. `deleted_by` is the command that deletes a Helm release, or empty for other resources.
    """

    type: str
    name: str
    deleted_by: str = ""


# Without this option, a preview that deletes a protected resource fails instead of showing its impact.
# Pulumi reads its options from variables with this prefix, and its SDK has no argument for this option.
_SHOWS_PROTECTED: Final = {"PULUMI_OPTION_IGNORE_PROTECT": "true"}


@dataclass(frozen=True, slots=True)
class FailedOperations:
    """URNs of resources whose last operation failed.

    `releases` are Helm releases whose upgrade failed. Helm rolled them back, but the state has the new values.
    Pulumi repeats the upgrade because the state also has the error. A refresh removes the error, and Pulumi then
    finds no change if the upgrade only added or only removed values (pulumi/pulumi#17949, open; Read in
    helm_release.go of pulumi-kubernetes v4.34.2; read 2026-11-30).

    `creations` are cloud resources whose creation failed. Terraform marks them as tainted and creates them again,
    but Pulumi only updates them, and forgets the error in a refresh (pulumi/pulumi-gcp#2700; read 2026-11-30).
    """

    releases: tuple[str, ...]
    creations: tuple[str, ...]


def failed_operations(resources: Sequence[Mapping[str, Any]]) -> FailedOperations:
    """Return the failed operations that the resources of a state record."""
    failed = [one for one in resources if one.get("initErrors")]
    return FailedOperations(
        releases=tuple(str(one["urn"]) for one in failed if one["type"] == HELM_RELEASE_TYPE),
        creations=tuple(str(one["urn"]) for one in failed if _creation_failed(one)),
    )


def _creation_failed(resource: Mapping[str, Any]) -> bool:
    """Return whether the errors of a resource mean that its creation has failed and cannot still succeed."""
    known = load_catalog().cloud_resources.get(str(resource["type"]))
    if known is None or known.creation_failed is None:
        return False
    return any(re.search(known.creation_failed, str(error)) for error in resource["initErrors"])


def _created_again(stack: automation.Stack, failed: FailedOperations) -> dict[str, Any]:
    """Return the options of a run that creates failed resources again, and tell the program to delete them
    first.
    """
    replaced = json.dumps(["::".join(_type_and_name(urn)) for urn in failed.creations])
    stack.workspace.env_vars = {**stack.workspace.env_vars, FAILED_VARIABLE: replaced}
    return {"replace": list(failed.creations) or None}


class PulumiEngine:
    """A stack of a Pulumi project, deployed by the CLI.

    Methods pass the CLI's output lines to `on_output`. They raise Finding with the CLI's diagnostics if the CLI
    fails, and UnknownOutcome while another update has locked the stack.
    """

    def __init__(
        self,
        cli: PulumiCli,
        stack: str,
        *,
        project: Path = PROJECT_ROOT,
        policy_packs: Sequence[Path] = (),
        policy_configs: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        on_output: OnOutput | None = None,
    ) -> None:
        """Set up the stack. `project` is the Pulumi project whose `stackConfigDir` contains the stack's file.

        `policy_configs` contains a JSON settings file for each policy pack, or is empty.
        """
        self._stack_name = stack
        output = WithoutInterruptions(OnlyChanges(on_output)) if on_output is not None else None
        self._common: dict[str, Any] = {"color": "never", "on_output": output, "on_error": output}
        self._common["suppress_outputs"] = (
            True  # the CLI would print hundreds of lines; we print a summary instead
        )
        self._policies: dict[str, Any] = {
            "policy_packs": [str(pack) for pack in policy_packs] or None,
            "policy_pack_configs": [str(config) for config in policy_configs] or None,
        }
        self._cli, self._env = cli, dict(env or {})
        self._options = automation.LocalWorkspaceOptions(
            pulumi_command=cli.command, env_vars=self._env, work_dir=str(project)
        )
        self._project = str(project)

    def preview(self) -> Changes:
        """Return the changes that `up` would make to the live objects, without writing state.

        Raises Finding if `up` would create all objects again and then delete them from the same cluster.

        A preview runs no policy packs, because the declared program was already checked against the policy rules.
        After a refresh, policy packs would also check changes by others, and a violation would prevent the repair.
        A preview shows the deletion of protected resources, which `up` refuses.
        """
        stack, steps = self._stack(), Steps()
        failed = failed_operations(self._resources())
        stack.workspace.env_vars = {**stack.workspace.env_vars, **_SHOWS_PROTECTED}
        with _clean_errors("preview", self._stack_name):
            stack.preview(on_event=steps, refresh=True, **_created_again(stack, failed), **self._common)
        if steps.replaces_objects_of_one_cluster:
            raise Finding(_NEW_ADDRESS.format(stack=self._stack_name))
        return Changes(self._stack_name, tuple(_with_retry(one, failed) for one in steps.changes))

    def up(self) -> Changes:
        """Deploy the stack, check it with the policy packs, and return the changes."""
        failed = failed_operations(self._resources())
        stack, steps = self._refreshed(failed), Steps()
        with _clean_errors("up", self._stack_name):
            again = _created_again(stack, failed)
            stack.up(on_event=steps, show_secrets=False, **again, **self._policies, **self._common)
        return Changes(self._stack_name, tuple(steps.changes))

    def destroy(self) -> Changes:
        """Delete the resources of the stack, but not its configuration and history. The stack need not exist."""
        steps = Steps()
        try:
            with _clean_errors("select", self._stack_name):
                stack = automation.select_stack(self._stack_name, work_dir=self._project, opts=self._options)
        except _NoSuchStack:
            return Changes(self._stack_name, ())
        # To delete a patch, Pulumi removes its fields with a server-side apply, which creates missing objects.
        # Without this refresh, deleted nodes would return as empty Node objects (seen in provider v4.34.2).
        patches = [str(one["urn"]) for one in self._resources() if str(one["type"]).endswith("Patch")]
        if patches:
            with _clean_errors("refresh", self._stack_name):
                stack.refresh(target=patches, show_secrets=False, **self._common)
        with _clean_errors("destroy", self._stack_name):
            stack.destroy(on_event=steps, show_secrets=False, **self._common)
        return Changes(self._stack_name, tuple(steps.changes))

    def outputs(self, *, show_secrets: bool = False) -> Mapping[str, Any] | None:
        """Return the outputs of the last deployment, or None if the backend does not have the stack.

        Secrets are masked unless `show_secrets`.
        """
        command = ["stack", "output", "--json", "--stack", self._stack_name]
        command += ["--show-secrets"] if show_secrets else []
        try:
            with _clean_errors("stack output", self._stack_name):
                result = self._cli.command.run(command, self._project, self._env)
        except _NoSuchStack:
            return None
        return cast("Mapping[str, Any]", json.loads(result.stdout))

    def objects(self) -> frozenset[ObjectKey]:
        """Return the Kubernetes objects in the stack's state, or none if the backend does not have the stack."""
        return frozenset(
            object_key(resource["inputs"])
            for resource in self._resources()
            if str(resource["type"]).startswith(KUBERNETES_PREFIX)
            and {"apiVersion", "kind"} <= (resource.get("inputs") or {}).keys()
        )

    def helm_releases(self) -> Mapping[tuple[str, str], str]:
        """Return the chart version of each Helm release in the stack's state, by namespace and name. Releases
        whose creation was interrupted are included.
        """
        releases: dict[tuple[str, str], str] = {}
        state = self._state()
        resources: list[Mapping[str, Any]] = [*(state.get("resources") or ())]
        resources += [operation.get("resource") or {} for operation in state.get("pending_operations") or ()]
        for resource in resources:
            if resource.get("type") == HELM_RELEASE_TYPE:
                inputs = cast("Mapping[str, Any]", resource.get("inputs") or {})
                key = (str(inputs.get("namespace", "")), str(inputs.get("name", "")))
                releases[key] = str(inputs.get("version", ""))
        return releases

    def is_empty(self) -> bool:
        """Return whether the stack's state contains no cloud resource and no Kubernetes object, which means that
        nothing exists yet.
        """
        return not any(
            resource.get("custom") and not str(resource["type"]).startswith(PULUMI_PREFIX)
            for resource in self._resources()
        )

    def interrupted_creations(self) -> tuple[InterruptedCreation, ...]:
        """Return the resources that may exist although the state records only that their creation has begun.

        Kubernetes objects are left out, because the next run takes them over. Helm releases are included, because
        Helm refuses a release whose name is already in use.
        """
        found: list[InterruptedCreation] = []
        for operation in self._state().get("pending_operations") or ():
            resource: Mapping[str, Any] = operation.get("resource") or {}
            type_, name = str(resource.get("type")), str(resource.get("urn")).rpartition("::")[2]
            if operation.get("type") != "creating" or type_.startswith(PULUMI_PREFIX):
                continue
            inputs: Mapping[str, Any] = resource.get("inputs") or {}
            if type_ == HELM_RELEASE_TYPE:
                uninstall = f"helm uninstall {inputs.get('name')} --namespace {inputs.get('namespace')}"
                found.append(InterruptedCreation(type_, name, uninstall))
            elif not type_.startswith(KUBERNETES_PREFIX):
                found.append(InterruptedCreation(type_, name))
        return tuple(found)

    def _resources(self) -> Sequence[Mapping[str, Any]]:
        """Return the resources in the stack's state, or none if the backend does not have the stack."""
        return self._state().get("resources") or ()

    def _state(self) -> Mapping[str, Any]:
        command = ["stack", "export", "--stack", self._stack_name]
        try:
            with _clean_errors("stack export", self._stack_name):
                result = self._cli.command.run(command, self._project, self._env)
        except _NoSuchStack:
            return {}
        return json.loads(result.stdout).get("deployment") or {}

    def _refreshed(self, failed: FailedOperations) -> automation.Stack:
        """Return the stack after a refresh of its state, so that `up` repairs changes by others.

        A refresh would remove the errors of failed operations from the state.
        """
        stack = self._stack()
        # If `up` refreshed the state itself, the policy packs would also check changes by others.
        # A policy violation in such a change would prevent `up` from repairing the change.
        with _clean_errors("refresh", self._stack_name):
            stack.refresh(show_secrets=False, exclude=[*failed.releases, *failed.creations], **self._common)
        return stack

    def _stack(self) -> automation.Stack:
        with _clean_errors("select", self._stack_name):
            return automation.create_or_select_stack(self._stack_name, work_dir=self._project, opts=self._options)


class _NoSuchStack(Finding):
    """The backend does not have the stack."""


@contextmanager
def _clean_errors(operation: str, stack: str) -> Generator[None]:
    try:
        yield
    except automation.ConcurrentUpdateError as error:
        raise UnknownOutcome(
            f"another update has locked stack {stack}; wait until it ends. If it was killed, run "
            f"`pulumi -C {PROJECT_ROOT} cancel --yes --stack {stack}`, then the same command again"
        ) from error
    except automation.StackNotFoundError as error:
        raise _NoSuchStack(f"the backend has no stack {stack}") from error
    except automation.CommandError as error:
        raise Finding(f"pulumi {operation} of stack {stack} failed:\n{_diagnostics(str(error))}") from error


_HEADINGS: Final = ("Diagnostics:", "Policies:", "Outputs:", "Resources:", "Duration:")


def _diagnostics(error: str) -> str:
    """Return the diagnostics and policy violations of a failed command, or else its standard error."""
    sections: dict[str, list[str]] = {}
    heading = ""
    stdout, _, stderr = error.partition("\n stderr: ")
    for line in stdout.splitlines():
        if line.strip() in _HEADINGS:
            heading = line.strip()
        elif line.strip() and not line.strip().startswith("✅"):  # marks a policy pack without violations
            sections.setdefault(heading, []).append(line)
    found: list[str] = []
    write = WithoutInterruptions(found.append)
    for line in (*sections.get("Policies:", ()), *sections.get("Diagnostics:", ())):
        write(line)
    text = "\n".join(found).strip("\n") or re.sub(r"\n{2,}", "\n", stderr).strip() or error.strip()
    return "\n".join((text, *_ways_on(text)))


# The API server refuses a change to the value of a PriorityClass, although the preview accepts this change.
# The provider recognises an immutable field only by the words "field is immutable" in a refusal.
# Source: Creation in pulumi-kubernetes, provider/pkg/await/await.go, read 2026-11-28.
_PRIORITY: Final = re.compile(r"PriorityClass\.scheduling\.k8s\.io \"([^\"]+)\" is invalid: value: Forbidden")


# Helm refuses to change a release whose last operation is pending. A killed operation stays pending.
# Sources: errPending in helm v3.20.2, pkg/action; pulumi/pulumi-kubernetes#2054 (open); read 2026-11-30.
_PENDING: Final = "another operation (install/upgrade/rollback) is in progress"
# Helm waits until the new pods of DaemonSets run on all nodes, and rolls the release back after its time limit.
# The old pod on a node that is not ready is never deleted. Sources: pkg/kube/ready.go of helm v3.20.2;
# kubernetes/kubernetes#85878 and #117204; read 2026-11-30.
_ATOMIC: Final = "due to atomic being set"
_TIMED_OUT: Final = ("context deadline exceeded", "timed out waiting for the condition")
# A release whose upgrade failed is not refreshed, so its deletion with Helm is not noticed.
_NOT_DEPLOYED: Final = "has no deployed releases"

# The provider deletes no Helm release from the state of a cluster that is gone, but a refresh does.
# Sources: Delete and Read in pulumi-kubernetes, provider/pkg/provider/provider.go; pulumi-kubernetes#2675 (open);
# read 2026-11-30.
_UNREACHABLE: Final = ("can't delete Helm Release with unreachable cluster", "PULUMI_K8S_DELETE_UNREACHABLE")

# Google may hold a connection for days after its last instance was deleted. The provider cannot delete it then.
# Sources: hashicorp/terraform-provider-google#16275 and #18834; pulumi/pulumi-gcp#3354;
# GoogleCloudPlatform/magic-modules#18476; read 2026-11-30.
_USED_CONNECTION: Final = "are still using this connection"


def _ways_on(text: str) -> Iterator[str]:
    """Yield advice about changes that the API server or Helm rejects although the preview accepts them."""
    if _PENDING in text:
        yield (
            "an earlier run was killed while it changed this Helm release: `helm list --all-namespaces --pending` "
            "prints its name, namespace and status. If no other run changes it, run `helm rollback RELEASE "
            "--namespace NAMESPACE`, then the same command again. If the status is pending-install, use `helm "
            "uninstall` instead"
        )
    if _ATOMIC in text and any(one in text for one in _TIMED_OUT):
        yield (
            "Helm waits for the pods of a release on all nodes, even on nodes that are not ready. `kubectl get "
            "nodes` shows which nodes are not ready. Repair these nodes or delete their Node objects, then run "
            "the same command again"
        )
    if _NOT_DEPLOYED in text:
        yield (
            "this Helm release was deleted after its upgrade failed: run "
            f"`pulumi -C {PROJECT_ROOT} refresh --yes --stack STACK`, then the same command again"
        )
    if any(one in text for one in _UNREACHABLE):
        yield (
            "If the cluster is only unreachable from here, restore the connection. If the cluster no longer "
            f"exists, run `PULUMI_K8S_DELETE_UNREACHABLE=true pulumi -C {PROJECT_ROOT} refresh --yes --stack "
            "STACK`, which removes its objects from the state, then the same command again"
        )
    if _USED_CONNECTION in text:
        yield (
            "Managed Lustre still uses the private services access of the VPC. `gcloud lustre instances list` "
            "shows its instances. Delete those that nobody needs, and then run the same command again. If no "
            "instance is left, run `gcloud compute networks peerings delete servicenetworking-googleapis-com "
            "--network NETWORK` first, because Google can hold the connection for days"
        )
    for name in dict.fromkeys(_PRIORITY.findall(text)):
        yield (
            "the value of a PriorityClass cannot be changed, so the class must be created again: run `kubectl "
            f"delete priorityclass {name}`, then the same command again. Running pods keep their priority. New "
            "pods of the class are refused until the class exists again"
        )


_NEW_ADDRESS: Final = (
    "stack {stack!r}: the address or the certificate authority of the cluster has changed, and the state of this "
    "stack does not identify the cluster yet. Pulumi would take over all objects, and then delete them. Nothing "
    "was changed. Restore the former kubeconfig, context and cluster settings, run `gpu-platform up {stack}`, "
    "which writes the identity to the state, and then make this change. To move the stack to another cluster, "
    "first destroy it"
)


class Steps:
    """Collects the changes of provider-managed resources from the engine's events.

    `replaces_objects_of_one_cluster` is whether Pulumi replaces a Kubernetes provider that has no cluster identity
    in the state. Pulumi then does not know that the old and the new objects are the same.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.replaces_objects_of_one_cluster = False

    def __call__(self, event: automation.EngineEvent) -> None:
        if event.res_outputs_event is None:
            return
        step = event.res_outputs_event.metadata
        state = step.new or step.old
        if step.op not in _ACTIONS or state is None or not state.custom:
            return
        if step.type == KUBERNETES_PROVIDER_TYPE and step.op is automation.OpType.REPLACE:
            old, new = ((one.inputs if one else None) or {} for one in (step.old, step.new))
            self.replaces_objects_of_one_cluster |= "clusterIdentifier" in new and "clusterIdentifier" not in old
        if not step.type.startswith(PULUMI_PREFIX):
            action = _ACTIONS[step.op]
            if action is Action.DELETE and state.retain_on_delete:
                action = Action.RETAIN  # Pulumi removes the object from its state, but leaves it in the cluster
            self.changes.append(Change(action, _key(step.urn, state.inputs or {}), _fields(step)))


def _with_retry(change: Change, failed: FailedOperations) -> Change:
    """Return the change with its reason if `up` repeats a failed operation. The preview of a failed upgrade finds
    no change.
    """
    if change.action is Action.UNCHANGED and change.key in {_key(urn, {}) for urn in failed.releases}:
        return replace(change, action=Action.UPDATE, reason="the last upgrade failed and was rolled back")
    if change.action is Action.REPLACE and change.key in {_key(urn, {}) for urn in failed.creations}:
        return replace(change, reason="its creation failed")
    return change


def _key(urn: str, inputs: Mapping[str, Any]) -> ObjectKey:
    """Return the key of a Kubernetes object. The key of any other resource contains only its type and name."""
    type_, name = _type_and_name(urn)
    if type_.startswith(KUBERNETES_PREFIX) and "apiVersion" in inputs and "kind" in inputs:
        return object_key(inputs)
    return ObjectKey("", type_, "", name)


def _type_and_name(urn: str) -> tuple[str, str]:
    """Return the type of a resource without its parents' types, and its name."""
    types, name = urn.split("::", 3)[2:]
    return types.rpartition("$")[2], name


def _fields(step: automation.StepEventMetadata) -> tuple[FieldChange, ...]:
    if step.op not in (automation.OpType.UPDATE, automation.OpType.REPLACE):
        return ()
    old: Mapping[str, Any] = (step.old.inputs if step.old else None) or {}
    new: Mapping[str, Any] = (step.new.inputs if step.new else None) or {}
    paths = step.detailed_diff or step.diffs or ()
    return tuple(FieldChange(path, _at(old, path), _at(new, path)) for path in paths)


_PATH_PART: Final = re.compile(r'\["(?P<quoted>[^"]*)"\]|\[(?P<index>\d+)\]|(?P<name>[^.\[]+)')


def _at(inputs: Mapping[str, Any], path: str) -> Json:
    """Return the value at a property path such as `spec.containers[0].image`, or None."""
    value: object = inputs
    for part in _PATH_PART.finditer(path):
        if part["index"] is not None and isinstance(value, list):
            items = cast("list[object]", value)
            value = items[int(part["index"])] if int(part["index"]) < len(items) else None
        elif isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(part["quoted"] or part["name"])
        else:
            return None
    return cast("Json", value)
