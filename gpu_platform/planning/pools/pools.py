"""Node pools: what follows from a machine type, a workload and a sharing mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gpu_platform import names
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.errors import did_you_mean
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.pools import check_eks_pool, plan_eks_pool
from gpu_platform.planning.clouds.gke.node import added_taints
from gpu_platform.planning.clouds.gke.plan import GkePoolPlan
from gpu_platform.planning.clouds.gke.pools import check_gke_pool, plan_gke_pool
from gpu_platform.planning.clouds.provider_sharing import check_provider_sharing
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.dra.claims import class_resources, offered_devices
from gpu_platform.planning.expectations.nodes import hardware_expectations, node_expectation
from gpu_platform.planning.nodes.allocatable import allocatable
from gpu_platform.planning.pools.declared_fields import check_declared_fields
from gpu_platform.planning.pools.requirements import NodeRequirements
from gpu_platform.planning.pools.section import Kubelet, NodesPlan, PoolPlan, Taint
from gpu_platform.planning.pools.software import (
    branch_of,
    check_software,
    driver_version,
    node_software,
    why_software,
)
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing.named import PoolShare, as_written
from gpu_platform.planning.sharing.sharing import (
    DEFAULT_KEY,
    check_sharing,
    offered_resources,
    plan_sharing,
    sharing_decisions,
)
from gpu_platform.spec.cluster import Cluster, EksCluster, GkeCluster, Operator
from gpu_platform.spec.pool import Pool

GPU_TAINT = Taint(key=names.GPU_TAINT_KEY, value=names.GPU_TAINT_VALUE, effect="NoSchedule")
RESERVED_LABEL_DOMAINS = ("gpu-platform.dev", "nvidia.com", "kubernetes.io", "k8s.io")
MAX_POOL_NAME = 40  # a node's name, <pool>-<number>, is also its hostname label, of at most 63
_CLOUDS: Mapping[str, str] = {"eks": "aws", "gke": "gcp"}


def check_pool(
    pool: Pool,
    cluster: Cluster | None,
    operator: Operator | None,
    catalog: Catalog,
    problems: Problems,
    share: PoolShare | None = None,
) -> None:
    """Record everything that is wrong with one pool by itself; `problems` stands at the pool.

    `share`: where the pool's sharing comes from; unset: it is written in the pool itself.
    """
    share = share or as_written(pool, problems.path)
    machine = catalog.machine_types.get(pool.machine_type)
    if pool.name == DEFAULT_KEY:
        problems.at("name").add(
            f"{pool.name!r}", "any name but 'default', the key of nodes without a pool", "call it by its job"
        )
    if machine is None:
        known = list(catalog.machine_types)
        fix = did_you_mean(pool.machine_type, known) or "see gpu_platform/catalog/facts for the known ones"
        problems.at("machine_type").add(
            f"{pool.machine_type!r}", f"one of the {len(known)} machine types of the catalogue", fix
        )
    else:
        if share.sound:
            check_sharing(share, machine, catalog.gpu_of(machine), problems)
        if pool.topology is not None and pool.topology.policy == "single-numa-node":
            _check_single_numa(pool, machine, problems)
    if len(pool.name) > MAX_POOL_NAME:
        problems.at("name").add(
            f"{len(pool.name)} characters", f"at most {MAX_POOL_NAME}: nodes are named after it", "shorten it"
        )
    for key in pool.labels:
        if key.split("/")[0].endswith(RESERVED_LABEL_DOMAINS) and "/" in key:
            problems.at("labels").at(key).add(
                f"{key!r}",
                "a label of your own: those of " + ", ".join(RESERVED_LABEL_DOMAINS) + " follow from the pool",
                "remove it, or say what it means by the pool's own fields",
            )
    taken = {(GPU_TAINT.key, GPU_TAINT.effect)}
    for index, taint in enumerate(pool.taints):
        if (taint.key, taint.effect) in taken:
            problems.at("taints").at(f"[{index}]").add(
                f"{taint.key}:{taint.effect} again",
                "each key and effect once; the GPU taint is always there",
                "remove it",
            )
        taken.add((taint.key, taint.effect))
    if cluster is None:
        return
    check_declared_fields(pool, cluster.provider, problems)
    _check_cluster(pool, machine, cluster, problems)
    if machine is None or machine.provider != _CLOUDS.get(cluster.provider, machine.provider):
        return
    if operator is not None:
        check_software(pool, cluster, operator, catalog, problems)
        plugin = node_software(pool, cluster, operator, catalog).device_plugin
        of_sharing = Problems(share.sharing_path, problems.found)
        check_provider_sharing(pool, plugin, machine, catalog.gpu_of(machine), of_sharing)
    if isinstance(cluster, EksCluster):
        check_eks_pool(pool, machine, cluster, catalog, problems)
    elif isinstance(cluster, GkeCluster):
        check_gke_pool(pool, machine, cluster, catalog, problems)


def _check_single_numa(pool: Pool, machine: MachineType, problems: Problems) -> None:
    nodes = machine.numa_nodes
    if nodes is not None and len(set(nodes)) > 1 and pool.workload == "training":
        per_numa = max(nodes.count(node) for node in set(nodes))
        problems.at("topology").at("policy").add(
            "'single-numa-node'",
            f"restricted: {machine.name} has its GPUs on {len(set(nodes))} NUMA nodes, "
            f"so a pod of more than {per_numa} GPUs would never start",
            "write policy: restricted",
        )


def _check_cluster(pool: Pool, machine: MachineType | None, cluster: Cluster, problems: Problems) -> None:
    cloud = _CLOUDS.get(cluster.provider)
    if machine is not None and cloud is not None and machine.provider != cloud:
        problems.at("machine_type").add(
            f"{machine.name!r} of {machine.provider} on {cluster.provider}",
            f"a machine type of {cloud}",
            "change the machine type or the cluster's provider",
        )
    if cluster.provider == "existing":
        if pool.nodes is None:
            problems.at("nodes").add(
                "nothing",
                "names or selector: which nodes of the existing cluster are this pool",
                "add nodes: {names: [gpu-0]} or nodes: {selector: {key: value}}",
            )
        elif pool.nodes.names is not None and len(pool.nodes.names) != pool.count.desired:
            problems.at("count").at("desired").add(
                str(pool.count.desired),
                f"{len(pool.nodes.names)}: the number of nodes.names",
                f"write desired: {len(pool.nodes.names)}",
            )


def check_driver(
    pool: Pool, cluster: Cluster | None, operator: Operator, catalog: Catalog, problems: Problems
) -> None:
    """Record a pool whose GPU is not supported by the driver that its nodes will have, as far as that is known."""
    machine = catalog.machine_types.get(pool.machine_type)
    if machine is None:
        return
    software = node_software(pool, cluster, operator, catalog)
    version = driver_version(pool, software, operator, catalog.operator_releases.get(operator.release))
    branch = branch_of(version) if version is not None else software.driver_branch
    if branch is None:
        return
    gpu = catalog.gpu_of(machine)
    newest = gpu.maximum_driver_branch
    if branch < gpu.minimum_driver_branch or (newest is not None and branch > newest):
        allowed = f"branch {gpu.minimum_driver_branch} " + ("or newer" if newest is None else f"to {newest}")
        of_image = version is None or pool.image.driver is not None
        problems.at("machine_type").add(
            f"{machine.name!r} ({gpu.product}) with driver "
            + (f"{version}" if version is not None else f"branch {branch} of its image"),
            f"driver {allowed} for {gpu.product} ({gpu.source})",
            "name an image with such a driver in image.ami and image.driver, or take another machine type"
            if of_image
            else "set operator.driver.version to one of that range",
        )


def plan_pool(
    pool: Pool,
    path: str,
    cluster: Cluster,
    operator: Operator,
    catalog: Catalog,
    decisions: list[Decision],
    share: PoolShare | None = None,
) -> PoolPlan:
    """Return the plan of a pool without problems; appends what was chosen to `decisions`.

    `share`: where the pool's sharing comes from; unset: it is written in the pool itself.
    """
    share = share or as_written(pool, path)
    machine = catalog.machine_types[pool.machine_type]
    gpu = catalog.gpu_of(machine)
    software = node_software(pool, cluster, operator, catalog)
    sharing = plan_sharing(share, gpu, software.device_plugin)
    decisions += sharing_decisions(pool.name, sharing, share)
    version = driver_version(pool, software, operator, catalog.operator_releases.get(operator.release))
    nodes = _nodes(pool, cluster, share.nodes)
    kubelet = _kubelet(pool, machine, cluster, decisions)
    cpu_millicores, memory_mib = allocatable(machine)
    labels = {
        names.POOL_LABEL: pool.name,
        names.MACHINE_TYPE_LABEL: machine.name,
        names.WORKLOAD_LABEL: pool.workload,
        names.SHARING_LABEL: sharing.mode,
    }
    if sharing.device_plugin_key is not None:
        labels[names.DEVICE_PLUGIN_CONFIG_LABEL] = sharing.device_plugin_key
    labels |= software.node_labels()
    if sharing.mig_config is not None:
        labels[names.MIG_CONFIG_LABEL] = sharing.mig_config
    if sharing.mig_change is not None:
        labels[names.MIG_CHANGE_LABEL] = sharing.mig_change
    if kubelet is not None:
        labels[names.TOPOLOGY_POLICY_LABEL] = kubelet.topology_policy
    labels |= pool.labels
    taints = (
        GPU_TAINT,
        *(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in pool.taints),
    )
    decisions.append(
        Decision(
            subject=f"pool {pool.name}",
            what="taint",
            chosen=f"{GPU_TAINT.key}={GPU_TAINT.value}:{GPU_TAINT.effect}",
            why="pods without GPUs stay off GPU nodes",
        )
    )
    if isinstance(cluster, EksCluster | GkeCluster):
        decisions.append(
            Decision(
                subject=f"pool {pool.name}",
                what="driver, toolkit, device plugin",
                chosen=f"{software.driver}, {software.toolkit}, {software.device_plugin}",
                why=why_software(pool, cluster, software, catalog),
            )
        )
    needs = NodeRequirements(software=software, kubelet=kubelet, labels=labels, taints=taints)
    cloud = None
    if isinstance(cluster, EksCluster):
        cloud = plan_eks_pool(pool, machine, cluster, needs, catalog, decisions)
    elif isinstance(cluster, GkeCluster):
        cloud = plan_gke_pool(pool, machine, cluster, needs, catalog, decisions)
    of_dra = sharing.mode == "dra"
    devices = offered_devices(machine, gpu, partitions=sharing.partitions) if of_dra else ()
    resources = class_resources(devices) if of_dra else offered_resources(sharing, gpu, machine.gpu_count)
    selected = pool.nodes.selector if pool.nodes is not None else None
    return PoolPlan(
        name=pool.name,
        path=path,
        workload=pool.workload,
        machine_type=machine.name,
        architecture=machine.arch,
        gpu_model=gpu.model,
        gpu_product=gpu.product,
        gpu_memory_mib=gpu.memory_mib,
        gpus_per_node=machine.gpu_count,
        nodes=nodes,
        capacity=pool.capacity.model_dump(mode="json", exclude_none=True),
        placement=_placement(pool, cloud),
        sharing=sharing,
        resources=resources,
        cpu_millicores=cpu_millicores,
        memory_mib=memory_mib,
        labels=labels,
        taints=taints,
        added_taints=added_taints(pool, machine) if isinstance(cluster, GkeCluster) else (),
        node_selector=dict(selected) if selected else {names.POOL_LABEL: pool.name},
        kubelet=kubelet,
        driver_version=version,
        software=software,
        cloud=cloud,
        price_usd_per_hour=machine.price_usd_per_hour if pool.usd_per_hour is None else pool.usd_per_hour,
        utilisation=pool.utilisation,
        expectations=hardware_expectations(
            pool.name, path, machine, sharing, operator, pool.image.driver, version, catalog
        ),
        node_expectation=node_expectation(
            pool.name, path, machine, gpu.product_label, sharing, software, resources, labels, taints, devices
        ),
        devices=devices,
    )


def _placement(pool: Pool, cloud: EksPoolPlan | KarpenterPoolPlan | GkePoolPlan | None) -> str:
    match cloud:
        case None:
            return pool.placement.type if pool.placement else "none"
        case GkePoolPlan():
            return "compact" if cloud.placement is not None else "none"
        case _:
            return "cluster" if cloud.placement_group is not None else "none"


def _nodes(pool: Pool, cluster: Cluster, said: tuple[str, ...] | None) -> NodesPlan:
    ownership: Literal["created", "labelled", "selected", "cloud"]
    node_names: tuple[str, ...] = ()
    if cluster.provider == "sandbox":
        ownership, node_names = "created", said or tuple(f"{pool.name}-{i}" for i in range(pool.count.desired))
    elif pool.nodes is not None and pool.nodes.names is not None:
        ownership, node_names = "labelled", pool.nodes.names
    elif pool.nodes is not None:
        ownership = "selected"
    else:
        ownership = "cloud"
    return NodesPlan(
        ownership=ownership,
        min=pool.count.min,
        desired=pool.count.desired,
        max=pool.count.highest,
        names=node_names,
    )


def _kubelet(pool: Pool, machine: MachineType, cluster: Cluster, decisions: list[Decision]) -> Kubelet | None:
    memory: Literal["none", "static"] = "none"
    if pool.topology is not None:
        policy, scope, why = pool.topology.policy, pool.topology.scope, "the stack says so"
        memory = pool.topology.memory
    elif cluster.provider == "existing":
        # The kubelets are not ours: claiming a policy that nobody set would be a lie on a label.
        return None
    elif pool.workload == "training" and machine.gpu_count > 1:
        policy, scope, why = (
            "restricted",
            "container",
            "training on several GPUs: GPUs, CPUs and NICs of one NUMA node",
        )
    else:
        return None
    decisions.append(
        Decision(subject=f"pool {pool.name}", what="Topology Manager", chosen=f"{policy} ({scope})", why=why)
    )
    return Kubelet(
        topology_policy=policy,
        topology_scope=scope,
        # A topology policy without static CPUs aligns nothing.
        cpu_manager_policy="static" if policy != "none" else "none",
        memory_manager_policy="Static" if memory == "static" else "None",
    )
