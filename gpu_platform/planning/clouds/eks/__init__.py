"""Amazon EKS: its own decisions, using the names of the EC2, EKS and Karpenter APIs."""
