"""A simulated AWS account and Azure subscription for the real Pulumi CLI. It has a resource provider, sandboxes as
clusters, and Helm charts.

The effect of a property change, the outputs of a new resource and the requests that the cloud refuses are defined
in this package (`kinds*.yaml`, with sources), and never in the program's catalogue, because tests compare the two.
A test starts `cloud.py`. The Pulumi engine starts the provider (`__main__.py`) as a process that reads and writes
one folder.
"""
