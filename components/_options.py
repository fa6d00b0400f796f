"""Options of a component's children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import pulumi

from gpu_platform.planning.clouds.section import Timeouts

UPSERT: Final = True
"""Setting of Kubernetes providers: an object that exists is taken over instead of refused as "already exists".

A team that returns finds its retained namespace, and an `up` that was killed finds what it created before.
"""

FORCE: Final = True
"""Setting of Kubernetes providers: declared fields are set whichever field manager owns them.

Each creation has a field manager of its own, so an `up` that was killed leaves objects whose fields would conflict
with every later change of them. What people changed by hand is set again. `gpu-platform` refuses beforehand to
take over an object of somebody else (deploy/pulumi/takeover.py).
"""


def child_options(
    component: pulumi.Resource, opts: pulumi.ResourceOptions | None, *after: pulumi.Resource
) -> pulumi.ResourceOptions:
    """Return the options of a component's first child: after `after` and after all that the component waits for.

    Pulumi does not hand a component's `depends_on` down. The other children wait for the first one:
    if each waited for everything, the dependencies would grow with the square of pools and teams.
    """
    waits = opts.depends_on if opts is not None else None
    if waits is None:
        return pulumi.ResourceOptions(parent=component, depends_on=list(after))
    listed = cast("Sequence[pulumi.Resource]", waits if isinstance(waits, (list, tuple)) else [waits])
    return pulumi.ResourceOptions(parent=component, depends_on=[*listed, *after])


def custom_timeouts(timeouts: Timeouts) -> pulumi.CustomTimeouts:
    """Return the plan's timeouts as Pulumi's, in minutes."""

    def text(seconds: int | None) -> str | None:
        return None if seconds is None else f"{seconds // 60}m"

    return pulumi.CustomTimeouts(
        create=text(timeouts.create), update=text(timeouts.update), delete=text(timeouts.delete)
    )


def retained(opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """Return options with which Pulumi leaves an object in the cluster when the program no longer declares it."""
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(retain_on_delete=True))


def formerly(name: str, opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """Return options by which Pulumi finds a component, and all below it, whose type had another name in 0.1.0."""
    alias = pulumi.Alias(type_=f"gpu-platform:index:{name}")
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=[alias]))


def child_of_stack(
    component: pulumi.Resource,
    *,
    providers: Sequence[pulumi.ProviderResource] | None = None,
    depends_on: Sequence[pulumi.Resource] | None = None,
) -> pulumi.ResourceOptions:
    """Return the options of a child that had no parent before `component` existed.

    The alias prevents a replacement in stacks that were deployed without the component.
    """
    return pulumi.ResourceOptions(
        parent=component,
        protect=False,  # parts of a protected stack may be removed; `__main__.py` guards the whole
        aliases=[pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)],
        providers=list(providers) if providers is not None else None,
        depends_on=list(depends_on) if depends_on is not None else None,
    )
