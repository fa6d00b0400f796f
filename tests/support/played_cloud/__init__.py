"""A simulated AWS account for the real Pulumi CLI: resource provider, EKS with sandboxes as clusters, Helm charts.

The effect of a property change, the outputs of a new resource and the requests that the cloud refuses are defined
in this package (`kinds.yaml`, with sources), and never in the program's catalogue, because tests compare the two.
A test starts `cloud.py`. The provider (`__main__.py`) is a process of the Pulumi engine that reads and writes one
folder.
"""
