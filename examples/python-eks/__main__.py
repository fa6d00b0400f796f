"""GPU node pools on an existing EKS cluster. The program looks up the cluster and passes its Outputs as arguments.

Configuration: `cluster`, the cluster's name; `region`; `zone`; `subnet`, the id of the private subnet in that
zone; `context`, a context of the kubeconfig. If `context` is unset, the current context is used.
"""

import json
import sys
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the checkout of gpu-platform
from components import (
    GpuNodePool,
    GpuNodePoolArgs,
    GpuOperator,
    GpuOperatorArgs,
    GpuTeam,
    GpuTeamArgs,
    GpuValidation,
    GpuValidationArgs,
)
from components.public.types import GpuCluster

config = pulumi.Config()
name, region, zone = config.require("cluster"), config.require("region"), config.require("zone")

eks = aws.eks.get_cluster_output(name=name)
role = aws.iam.Role(
    "gpu-nodes",
    assume_role_policy=json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        }
    ),
    managed_policy_arns=[
        f"arn:aws:iam::aws:policy/{policy}"
        for policy in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy")
    ],
)
efa = aws.ec2.SecurityGroup(
    "gpu-efa",
    vpc_id=eks.vpc_config.vpc_id,
    ingress=[aws.ec2.SecurityGroupIngressArgs(protocol="-1", from_port=0, to_port=0, self=True)],
    egress=[aws.ec2.SecurityGroupEgressArgs(protocol="-1", from_port=0, to_port=0, self=True)],
)

# All components use the same cluster arguments.
# Name, region and version are plain values, because planning depends on them.
cluster: GpuCluster = {
    "provider": "eks",
    "name": name,
    "region": region,
    "kubernetes": "1.35",
    "subnets": {zone: config.require("subnet")},
    "cluster_security_group_id": eks.vpc_config.cluster_security_group_id,
    "efa_security_group_id": efa.id,
    "node_role_arn": role.arn,
}

train = GpuNodePool(
    "train",
    GpuNodePoolArgs(
        cluster=cluster,
        machine_type="p5.48xlarge",
        count={"desired": 2},
        zones=[zone],
        workload="training",
    ),
)
serve = GpuNodePool(
    "serve",
    GpuNodePoolArgs(
        cluster=cluster,
        machine_type="g6e.12xlarge",
        count={"min": 1, "desired": 1, "max": 4},
        zones=[zone],
        workload="inference",
        sharing={"mode": "time-slicing", "replicas": 4},
    ),
)
pools = [train.pool, serve.pool]

# Use the kubeconfig that `aws eks update-kubeconfig` writes.
in_cluster = pulumi.ResourceOptions(providers=[k8s.Provider("cluster", context=config.get("context"))])
operator = GpuOperator("gpu-operator", GpuOperatorArgs(cluster=cluster, pools=pools), in_cluster)
validated = GpuValidation(
    "gpu-validation",
    GpuValidationArgs(cluster=cluster, pools=pools, timeout="30m"),
    pulumi.ResourceOptions.merge(in_cluster, pulumi.ResourceOptions(depends_on=[train, serve, operator])),
)
vision = GpuTeam(
    "vision",
    GpuTeamArgs(
        cluster=cluster,
        pools=pools,
        quota={"gpus": 8, "shared": 8, "cpu": 96, "memory": "1Ti"},
        priority="training",
        members=["group:vision"],
    ),
    pulumi.ResourceOptions.merge(in_cluster, pulumi.ResourceOptions(depends_on=[validated])),
)

pulumi.export("nodeGroup", train.node_pool_name)
pulumi.export("resources", train.resources)
pulumi.export("namespace", vision.namespace)
