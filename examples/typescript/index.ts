// GPU node pools on an EKS cluster that another stack created. The exports of that stack are passed as Outputs.
// `pulumi install` generates the package @pulumi/gpu-platform from the plugin.
import * as gpu from "@pulumi/gpu-platform";
import * as pulumi from "@pulumi/pulumi";

const base = new pulumi.StackReference(new pulumi.Config().require("baseStack"));

const cluster = {
    provider: "eks",
    name: "ml",
    region: "us-east-2",
    kubernetes: "1.35",
    kubeconfig: base.requireOutput("kubeconfig"),
    subnets: { "us-east-2a": base.requireOutput("privateSubnet") },
    clusterSecurityGroupId: base.requireOutput("clusterSecurityGroup"),
    nodeRoleArn: base.requireOutput("nodeRole"),
};

const notebooks = {
    machineType: "g6.12xlarge",
    count: { min: 0, desired: 1, max: 4 },
    zones: ["us-east-2a"],
    workload: "development",
    sharing: { mode: "time-slicing", replicas: 4 },
};
const pools = [{ name: "notebooks", ...notebooks }];

const pool = new gpu.GpuNodePool("notebooks", { cluster, ...notebooks });
const operator = new gpu.GpuOperator("gpu-operator", { cluster, pools });
const validation = new gpu.GpuValidation(
    "gpu-validation",
    { cluster, pools, timeout: "20m" },
    { dependsOn: [pool, operator] },
);
const vision = new gpu.GpuTeam(
    "vision",
    {
        cluster,
        pools,
        quota: { shared: 8, cpu: 32, memory: "128Gi" },
        priority: "inference",
        members: ["group:vision"],
    },
    { dependsOn: [validation] },
);

export const nodeGroup = pool.nodePoolName;
export const namespace = vision.namespace;
