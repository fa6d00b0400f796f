"""Find example values that users must replace in a stack file, on any cloud."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_platform.planning.clouds.section import CloudCluster, Example

# RFC 5737 reserves 203.0.113.0/24 for examples.
_EXAMPLE_NETWORK: Final = "203.0.113."


def api_access_examples(cluster: CloudCluster) -> Iterator[Example]:
    """Yield the networks in `create.api_access` that are examples."""
    for network in cluster.create.api_access if cluster.create is not None else ():
        if network.startswith(_EXAMPLE_NETWORK):
            fix = "write the network from which `up` and the users connect"
            yield Example(field="cluster.create.api_access", value=network, fix=fix)
