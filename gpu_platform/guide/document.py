"""The guide of a team as Markdown, as one HTML page, as JSON, and as the content of a ConfigMap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.pages import render_page
from gpu_platform.base.quantity import counted
from gpu_platform.base.yaml_text import manifest_text
from gpu_platform.catalog.admission_rules import AdmissionRule
from gpu_platform.guide.live_guide import LiveGuide
from gpu_platform.guide.manifests import manifests
from gpu_platform.planning.dra.section import ClaimPlan
from gpu_platform.planning.guide.section import ExamplePlan, GuidePlan, GuidePool
from gpu_platform.planning.json_form import plan_to_json
from gpu_platform.planning.queues.queue_admission import queue_policy
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams.network import text_of_egress, text_of_ingress
from gpu_platform.planning.teams.section import TeamMember, TeamPlan

CONFIG_MAP: Final = names.GUIDE_CONFIG_MAP
PAGE: Final = "guide.md"
_BOUNDED: Final[Mapping[str, str]] = {
    "services.loadbalancers": "load balancers",
    "services.nodeports": "node ports",
}
_WHAT: Final[Mapping[str, str]] = {
    "training": "a training job with torchrun",
    "inference": "an HTTP server on a GPU, with its Service",
    "notebook": "JupyterLab, which is stopped after an hour without use",
    "batch": "a job in four parts, with one pod for each part",
}


def guide_to_markdown(
    guide: GuidePlan,
    team: TeamPlan,
    queue: TeamQueuePlan | None,
    live: LiveGuide | None = None,
    *,
    full: bool = False,
) -> str:
    """Return the guide as Markdown. With `full`, it also contains the manifests. Otherwise, it explains how to get
    the manifests.
    """
    sections = (
        _login(guide, team),
        _grants(team, queue, live),
        _pools(guide, team, live),
        _queue(queue, live),
        _running(guide, team, queue),
        _storage(guide, team),
        _network(team),
        _refused(team, queue),
        _cleanup(guide),
        _examples(guide, team, queue, full=full),
    )
    title = f"# Team {guide.namespace} on cluster {guide.cluster}"
    return "\n\n".join([title, *("\n".join(section) for section in map(list, sections) if section)]) + "\n"


def guide_to_html(
    guide: GuidePlan, team: TeamPlan, queue: TeamQueuePlan | None, live: LiveGuide | None = None
) -> str:
    """Return the guide with its manifests as one HTML page without external links."""
    # markdown_it is imported here, because it imports 60 modules that components do not need.
    from markdown_it import MarkdownIt

    markdown = guide_to_markdown(guide, team, queue, live, full=True)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    # Wide tables and code blocks scroll separately from the page, and can be scrolled with the keyboard.
    body = body.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace(
        "</table>", "</table></div>"
    )
    body = body.replace("<pre>", '<pre tabindex="0">')
    title = f"Team {guide.namespace} on {guide.cluster}"
    return render_page("gpu_platform.guide", "document.html", title=title, guide=body)


def guide_to_json(
    guide: GuidePlan, team: TeamPlan, queue: TeamQueuePlan | None, live: LiveGuide | None = None
) -> dict[str, Any]:
    """Return the guide with its manifests as plain JSON values."""
    document: dict[str, Any] = {
        "namespace": guide.namespace,
        "cluster": guide.cluster,
        "login": list(guide.login),
        "members": {role: list(members) for role, members in _members(team)},
        "granted": dict(team.quota),
        "pools": plan_to_json(guide.pools),
        "queue": None if queue is None else {"name": queue.local_queue, "must_be_named": queue.required},
        "priority": guide.priority,
        "priorities": list(team.priorities),
        "volumes": plan_to_json(guide.volumes),
        "storage_classes": list(guide.storage_classes),
        "egress": [text_of_egress(one) for one in team.all_egress],
        "ingress": [text_of_ingress(one) for one in team.ingress],
        "refused": [{"id": rule.id, "message": rule.message} for rule in _rules(team, queue)],
        "manifests": {kind: list(objects) for kind, objects in manifests(guide, team, queue).items()},
        "missing": dict(guide.missing),
        "cleanup": plan_to_json(guide.cleanup),
    }
    if live is not None:
        document["live"] = plan_to_json(live)
    return document


def config_map_data(guide: GuidePlan, team: TeamPlan, queue: TeamQueuePlan | None) -> Mapping[str, str]:
    """Return the guide and its manifests by file name, as in the ConfigMap in the team's namespace."""
    found = {PAGE: guide_to_markdown(guide, team, queue)}
    return {
        **found,
        **{f"{kind}.yaml": manifest_text(*objects) for kind, objects in manifests(guide, team, queue).items()},
    }


# -- sections -------------------------------------------------------------------------------------------


def _login(guide: GuidePlan, team: TeamPlan) -> Iterator[str]:
    yield "## Log in\n"
    if guide.login:
        yield from ("```console", *(f"$ {command}" for command in guide.login), "```")
        yield ""
        yield f"Then pass the namespace to each command (`kubectl -n {guide.namespace} ...`), or set it once:"
    else:
        yield "The owner of the cluster provides the kubeconfig. Set the namespace once:"
    yield from ("", "```console", f"$ kubectl config set-context --current --namespace={guide.namespace}")
    yield from ("$ kubectl auth can-i create jobs   # yes, for members and admins", "```", "")
    yield from (f"- {role}: {', '.join(members)}" for role, members in _members(team) if members)


def _members(team: TeamPlan) -> tuple[tuple[str, Sequence[str]], ...]:
    return (
        ("admins", [_name(one) for one in team.admins]),
        ("members", [_name(one) for one in team.members]),
        ("viewers", [_name(one) for one in team.viewers]),
    )


def _name(member: TeamMember) -> str:
    name = member.name if member.namespace is None else f"{member.namespace}/{member.name}"
    return f"{member.kind.lower()}:{name}"


def _grants(team: TeamPlan, queue: TeamQueuePlan | None, live: LiveGuide | None) -> Iterator[str]:
    yield "## Quota of the team\n"
    granted = {key: quantity for key, quantity in team.quota.items() if quantity != "0"}
    if not granted:
        yield "No GPUs, and no limit on CPU and memory."
        return
    rows = [
        (key.removeprefix("requests."), quantity, *([] if live is None else [_used(key, live)]))
        for key, quantity in sorted(granted.items())
    ]
    yield from _table(("resource", "quota", *([] if live is None else ["in use now"])), rows)
    yield ""
    if queue is not None:
        borrowed = sorted(
            {
                limit.resource
                for flavor in queue.flavors
                for limit in flavor.limits
                if limit.borrow not in ("0", "0m", "0Mi")
            }
        )
        if {"requests.cpu", "requests.memory"} & granted.keys():
            yield "The quotas for CPU and memory apply only to pods on nodes without GPUs."
            yield "A pod with GPUs receives CPU and memory of its node in proportion to its GPUs."
        if borrowed:
            yield f"Quota that other teams do not use can be borrowed: {', '.join(borrowed)}."
            yield (
                "The team that owns the quota can reclaim it. Workloads that use it are then preempted and "
                "queued again."
            )
    else:
        yield "Pods beyond the quota are refused. `kubectl describe resourcequota gpu-quota` shows what is in use."


def _used(key: str, live: LiveGuide) -> str:
    borrowed = live.borrowed.get(key, "0")
    return live.used.get(key, "0") + (f" ({borrowed} borrowed)" if borrowed not in ("0", "0Gi") else "")


def _pools(guide: GuidePlan, team: TeamPlan, live: LiveGuide | None) -> Iterator[str]:
    if not guide.pools:
        return
    yield "## Where pods run\n"
    heads = ["pool", "nodes at most", "GPU", "ask for", "for", "bought as"]
    rows = [
        (
            f"`{pool.name}`",
            f"{pool.nodes_max} {pool.machine_type}",
            f"{pool.gpu}, {pool.gpu_memory_mib // 1024} GiB" if pool.gpu else "none",
            "<br>".join(_ask(pool)) if pool.gpu else "CPU and memory",
            pool.workload,
            pool.capacity,
            *([] if live is None else [_free_text(pool, live.free.get(pool.name))]),
        )
        for pool in guide.pools
    ]
    yield from _table(
        [*heads, *([] if live is None else ["free now"])], [[c.replace("<br>", "; ") for c in row] for row in rows]
    )
    yield ""
    if team.claims:
        yield from _claims(team.claims)
    requested = any("/" in resource for pool in guide.pools for resource in pool.resources)
    what = "requests the resource under `resources.limits`, selects its pool," if requested else "selects its pool"
    yield f"A pod {what} and tolerates its taints:"
    for pool in guide.pools:
        taints = ", ".join(f"`{taint.key}:{taint.effect}`" for taint in pool.tolerations) or "no taints"
        labels = ", ".join(f"`{key}: {value}`" for key, value in pool.node_selector.items())
        yield f"- {pool.name}: {labels}; {taints}"
    for pool in guide.pools:
        if pool.schedule is not None:
            yield ""
            yield (
                f"Pool `{pool.name}` has nodes only {pool.schedule}. At {pool.schedule.stop} its pods are "
                "terminated. Save your data to a volume beforehand. Pods that are then restarted by a "
                f"controller or a queue wait until {pool.schedule.start}."
            )
    for pool in guide.pools:
        if pool.aligned is not None:
            gpus, cpus = pool.aligned
            yield ""
            yield (
                f"A NUMA node of pool `{pool.name}` has {counted(gpus, 'GPU')} and {cpus} CPUs, and a pod "
                "starts only if its GPUs are on as few NUMA nodes as possible. Whole CPUs are exclusive, and "
                "must be on the same NUMA nodes. Write a fraction such as `cpu: 15500m`, or at most as many "
                "CPUs as those NUMA nodes have. Otherwise the pod fails with `TopologyAffinityError`."
            )


def _claims(claims: Sequence[ClaimPlan]) -> Iterator[str]:
    """Yield the lines that explain how a pod claims devices with the team's claim templates."""
    yield "Devices are claimed, not requested under `resources.limits`. The team's templates:"
    yield from (f"- `{claim.name}`: {claim.count} of `{claim.device_class}`" for claim in claims)
    yield ""
    named = f"{{name: gpu, resourceClaimTemplateName: {claims[0].name}}}"
    yield f"A pod names a template with `resourceClaims: [{named}]`."
    yield "The container names the claim with `resources: {claims: [{name: gpu}]}`."
    yield ""


def _ask(pool: GuidePool) -> list[str]:
    return [_ask_for(name, most) for name, most in pool.resources.items()] or ["a claim from a team template"]


def _ask_for(resource: str, most: int) -> str:
    if "/" not in resource:
        return f"a claim for `{resource}`, at most {counted(most, 'device')} per pod"
    # A process can use only one share or MIG instance, even if its container has several shares or instances.
    return f"`{resource}`, " + ("1 per container" if most == 1 else f"at most {most} per pod")


def _free_text(pool: GuidePool, units: Mapping[str, int] | None) -> str:
    """Return a pool's free resources as text. `units` contains the free amount of each resource, or is None if no
    node is ready.

    An empty mapping means that the ready nodes have no resources to count.
    """
    if units is None:
        return "no node is ready"
    free = "; ".join(f"{count} {name}" for name, count in sorted(units.items()))
    return free or ("not counted, because devices are claimed" if pool.gpu else "CPU and memory")


def _queue(queue: TeamQueuePlan | None, live: LiveGuide | None) -> Iterator[str]:
    if queue is None:
        return
    yield "## The queue\n"
    if queue.required:
        yield f"Jobs and pods without the label `{names.QUEUE_LABEL}: {queue.local_queue}` are refused."
    else:
        yield (
            f"Every Job and pod enters the queue `{queue.local_queue}`, and starts when there is room for all "
            "its pods."
        )
    yield from ("", "```console", "$ kubectl get workloads            # which are waiting, and which are running")
    yield from ("$ kubectl describe workload NAME   # why it is waiting, or was preempted", "```")
    if live is None:
        return
    yield ""
    if live.held:
        yield f"The queue is held ({live.held}): no new workload starts until an administrator releases it.\n"
    if live.refused:
        yield f"{live.refused}\n"
    if live.waiting:
        yield from _table(
            ("place", "workload", "why it waits"), [(str(w.place), w.name, w.why) for w in live.waiting]
        )
    elif not live.deactivated:
        yield "Nothing waits now."
    if live.deactivated:
        yield ""
        yield from _table(("workload", "why it stays stopped"), [(one.name, one.why) for one in live.deactivated])
    if live.incomplete:
        yield ""
        yield from _table(("workload", "why a pod is missing"), [(one.name, one.why) for one in live.incomplete])


def _running(guide: GuidePlan, team: TeamPlan, queue: TeamQueuePlan | None) -> Iterator[str]:
    yield "## Priorities\n"
    others = [name for name in team.priorities if name != guide.priority]
    lower = f" Lower classes are allowed too: {', '.join(f'`{name}`' for name in others)}." if others else ""
    which = "A pod without a class" if team.pod_defaults is None else "A pod without GPUs and without a class"
    yield f"Write `priorityClassName: {guide.priority}`. {which} is preempted first.{lower}"
    if queue is not None and queue.default_priority is not None:
        yield f"A Job or other workload without a priority has the priority {queue.default_priority} in the queue."
    if team.pod_defaults is not None:
        yield "A pod that requests a GPU receives this class and the toleration for GPU nodes by default."
        yield "Its default CPU and memory are its GPUs' share of the node. Other pods receive 500m CPU and 1 GiB."
    else:
        yield "Pods without requests receive 500m CPU and 1 GiB; their limits are 4 CPUs and 16 GiB."
    if team.service_account is not None:
        account = team.service_account
        yield ""
        rights = f": {', '.join(account.rights)}" if account.rights else ""
        needed = [f"`serviceAccountName: {account.name}`"]
        needed += [f'the label `{key}: "{value}"`' for key, value in account.pod_labels.items()]
        yield f"Pods with {' and '.join(needed)} have the team's identity in the cloud{rights}."


def _storage(guide: GuidePlan, team: TeamPlan) -> Iterator[str]:
    if not guide.volumes and not guide.storage_classes:
        return
    yield "## Storage\n"
    for volume in guide.volumes:
        access = "read" if volume.read_only else "read and write"
        needed = " and ".join(f'`{key}: "{value}"`' for key, value in volume.annotations.items())
        annotated = f"; pods that mount it need the annotations {needed}" if needed else ""
        yield f"- claim `{volume.claim}`: {volume.source} ({access}){annotated}"
    if guide.storage_classes:
        limit = team.object_quota.get("requests.storage")
        most = f", at most {limit} in total" if limit else ""
        classes = ", ".join(f"`{name}`" for name in guide.storage_classes)
        yield f"- new claims{most}: storage class {classes}"


def _network(team: TeamPlan) -> Iterator[str]:
    yield "## Network\n"
    outside = [text_of_egress(one) for one in team.all_egress]
    yield "Pods reach each other and DNS" + (f", and {'; '.join(outside)}." if outside else ", and nothing else.")
    sources = [text_of_ingress(one) for one in team.ingress]
    yield "Pods accept connections from pods of this namespace" + (
        f", and from {'; '.join(sources)}." if sources else " only."
    )


def _refused(team: TeamPlan, queue: TeamQueuePlan | None) -> Iterator[str]:
    yield "## What is refused\n"
    nics = "" if team.fabric is None else ", except for the GPU NICs of whole nodes"
    yield f"- Pods that do not meet Pod Security `{team.pod_security}`. The manifests meet `restricted`{nics}."
    if team.fabric is not None:
        yield (
            f"  Pods with GPUDirect ({', '.join(team.fabric.fabrics)}) that request all GPUs of a node in "
            f"{', '.join(team.fabric.pools)} may also use the settings of the vendor's own test pods."
        )
    yield from (f"- `{rule.id}`: {rule.message}" for rule in _rules(team, queue))
    beyond = ", borrowing included" if queue is not None else ""
    yield f"- Pods that exceed the quota{beyond}: `exceeded quota: gpu-quota`."
    yield f"- A priority class other than {', '.join(team.priorities)}: `exceeded quota: priority-above-own`."
    if team.object_quota:
        none = [name for key, name in _BOUNDED.items() if team.object_quota.get(key) == "0"]
        closed = f" The team has no {' and no '.join(none)}." if none else ""
        yield "- More objects or storage than `kubectl describe resourcequota object-quota` shows:"
        yield f"  `exceeded quota: object-quota`.{closed}"


def _cleanup(guide: GuidePlan) -> Iterator[str]:
    cleanup = guide.cleanup
    if cleanup is None:
        return
    yield "## What is cleaned up\n"
    done = "is deleted" if cleanup.delete else "is reported to the operator, but not deleted"
    yield f"A scheduled job looks for objects that are no longer needed. Each of them {done}:\n"
    if cleanup.finished_after is not None:
        yield f"- Jobs, and pods without a controller, that finished more than {cleanup.finished_after} ago"
    yield "- objects with the label `gpu-platform.dev/expires-on`, a date such as `2026-12-31`, after that date"
    if cleanup.idle_after is not None:
        yield (
            f"- notebooks whose GPUs have been idle for {cleanup.idle_after}, and other objects with the label "
            f'`{names.IDLE_LABEL}: "true"` on their pods'
        )
    yield ""
    yield f"Volumes stay, and so do objects with the label `{names.CLEANUP_LABEL}: never`."


def _rules(team: TeamPlan, queue: TeamQueuePlan | None) -> tuple[AdmissionRule, ...]:
    """Return the admission rules that the API server enforces in the team's namespace."""
    # The policy for templates is left out, because it repeats the rules for pods.
    policies = [policy for policy in team.policies if policy.name != "templates-of"]
    if queue is not None:
        policies.append(queue_policy(queue))
    return tuple(rule for policy in policies for rule in policy.rules)


def _examples(guide: GuidePlan, team: TeamPlan, queue: TeamQueuePlan | None, *, full: bool) -> Iterator[str]:
    yield "## Manifests that run unchanged\n"
    rows = [(f"`{one.kind}`", _WHAT[one.kind], _asks(one)) for one in guide.examples]
    if rows:
        yield from _table(("name", "what", "asks for"), rows)
        key = f"{guide.examples[0].kind}\\.yaml"
        yield from (
            "",
            "```console",
            f"$ kubectl -n {guide.namespace} get configmap {CONFIG_MAP} -o jsonpath='{{.data.{key}}}' > "
            f"{guide.examples[0].kind}.yaml",
            f"$ kubectl apply -f {guide.examples[0].kind}.yaml",
            "```",
        )
    if guide.simulated:
        yield ""
        yield (
            "Nodes of a sandbox are simulated: pods are scheduled, but their containers do not run, so "
            "`kubectl logs`, `exec` and `port-forward` do not work."
        )
    elif any(one.kind == "notebook" for one in guide.examples):
        yield from (
            "",
            "The notebook prints its address with a token; forward a port of your machine to it:",
            "",
            "```console",
            f"$ kubectl -n {guide.namespace} logs job/notebook | grep token=",
            f"$ kubectl -n {guide.namespace} port-forward job/notebook 8888",
            "```",
        )
    for kind, why in guide.missing.items():
        yield from ("", f"No {kind} example: {why}.")
    if full:
        for kind, objects in manifests(guide, team, queue).items():
            yield from ("", f"### {kind}.yaml", "", "```yaml", manifest_text(*objects).rstrip("\n"), "```")


def _asks(example: ExamplePlan) -> str:
    workload = example.workload
    pods = "1 pod" if workload.replicas == 1 else f"{workload.replicas} pods, each"
    held = f"{workload.units} {workload.resource}" if workload.resource else "no GPU"
    return f"pool {workload.pool}: {pods} {held}, {workload.cpu} CPU, {workload.memory}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    yield from (
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    )
