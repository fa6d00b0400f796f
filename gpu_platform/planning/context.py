"""Inputs of every planning package: the parts of the stack file, the catalogue, the cloud, the problems.

`Context` holds the parts that parsed, so that a file with mistakes of several kinds shows all of them in one run.
`CompleteContext` holds a whole environment without mistakes in its form.
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
    """The parts of an environment that parsed. `pools`: index in the file, pool; `problems` is at the file's root.

    `cloud` and `operator` are None where that part of the file did not parse.
    """

    catalog: Catalog
    cloud: Cloud | None
    operator: Operator | None
    pools: tuple[tuple[int, Pool], ...] = ()
    sharing: Mapping[str, Sharing] = field(default_factory=dict[str, Sharing])
    problems: Problems = field(default_factory=Problems)

    @property
    def kubernetes(self) -> str | None:
        """The cluster's Kubernetes minor version where it is known before a deploy."""
        return self.cloud.kubernetes if self.cloud is not None else None

    def at(self, path: str) -> Problems:
        """Return where problems of a place in the file are recorded."""
        return Problems(path, self.problems.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteContext(Context):
    """A whole environment of stack `stack`."""

    stack: str
    environment: Environment
    cloud: Cloud
    operator: Operator
