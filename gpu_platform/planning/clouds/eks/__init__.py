"""Plan clusters and node pools of Amazon EKS, using the names of the EC2, EKS and Karpenter APIs."""
