"""Outputs of team identities, in the same form for each cloud."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamIdentityOutputs:
    """The cloud resources of a team's identity.

    Its pods start after `resources` exist. `annotations` are the annotations of the service account whose values
    the cloud chooses.
    """

    resources: Sequence[pulumi.Resource]
    annotations: Mapping[str, pulumi.Input[str]] = field(default_factory=dict[str, pulumi.Input[str]])
