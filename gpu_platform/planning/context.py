"""The inputs of every planning package: the parsed stack file, the catalogue, the cloud and the problems found.

`Context` contains the sections of the file that could be parsed, so that one run reports mistakes of several
kinds. `CompleteContext` contains a whole environment that was parsed without mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import Operator
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Sharing


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The sections of an environment that could be parsed.

    Each entry of `pools` is a pair: the pool's index in the file, and the pool. `problems` records problems with
    paths from the root of the file. `cloud` and `operator` are None if their section of the file could not be
    parsed.
    """

    catalog: Catalog
    cloud: Cloud | None
    operator: Operator | None
    pools: tuple[tuple[int, Pool], ...] = ()
    sharing: Mapping[str, Sharing] = field(default_factory=dict[str, Sharing])
    problems: Problems = field(default_factory=Problems)

    @property
    def kubernetes(self) -> str | None:
        """The cluster's Kubernetes minor version, or None if it is not known before a deployment."""
        return self.cloud.kubernetes if self.cloud is not None else None

    def at(self, path: str) -> Problems:
        """Return an object that records problems at a path in the file."""
        return Problems(path, self.problems.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteContext(Context):
    """The inputs for planning a whole environment. `stack` is the name of its stack."""

    stack: str
    environment: Environment
    cloud: Cloud
    operator: Operator
