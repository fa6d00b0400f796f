"""A played AWS account for the real Pulumi CLI: resource provider, EKS with sandboxes as clusters, Helm charts.

What a property change does, what a new resource has and what the cloud refuses are facts of this package
(`kinds.yaml`, with sources), never of the program's catalogue: a test compares the two. `cloud.py` is what a test
starts; the provider (`__main__.py`) is a process of the Pulumi engine and reads and writes one folder.
"""
