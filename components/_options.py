"""Resource options for the children of components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pulumi

from gpu_platform.planning.clouds.section import Timeouts


def child_options(
    component: pulumi.Resource, opts: pulumi.ResourceOptions | None, *after: pulumi.Resource
) -> pulumi.ResourceOptions:
    """Return the options of a component's first child, which waits for `after` and for the component's
    dependencies.

    Pulumi does not pass a component's `depends_on` to its children. The other children wait for the first child.
    If every child waited for every dependency, the number of dependencies would grow with the square of the number
    of pools and teams.
    """
    waits = opts.depends_on if opts is not None else None
    if waits is None:
        return pulumi.ResourceOptions(parent=component, depends_on=list(after))
    listed = cast("Sequence[pulumi.Resource]", waits if isinstance(waits, (list, tuple)) else [waits])
    return pulumi.ResourceOptions(parent=component, depends_on=[*listed, *after])


def custom_timeouts(timeouts: Timeouts) -> pulumi.CustomTimeouts:
    """Convert the plan's timeouts to Pulumi's custom timeouts, in minutes."""

    def text(seconds: int | None) -> str | None:
        return None if seconds is None else f"{seconds // 60}m"

    return pulumi.CustomTimeouts(
        create=text(timeouts.create), update=text(timeouts.update), delete=text(timeouts.delete)
    )


def retained(opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """Return options that keep an object in the cluster after it is removed from the program."""
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(retain_on_delete=True))


def formerly(name: str, opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """Return options with an alias, so that Pulumi finds a component whose type had a different name in 0.1.0."""
    alias = pulumi.Alias(type_=f"gpu-platform:index:{name}")
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=[alias]))


def child_of_stack(
    component: pulumi.Resource,
    *,
    providers: Sequence[pulumi.ProviderResource] | None = None,
    depends_on: Sequence[pulumi.Resource] | None = None,
) -> pulumi.ResourceOptions:
    """Return the options of a child that had no parent before `component` was introduced.

    The alias prevents a replacement in stacks that were deployed without the component.
    """
    return pulumi.ResourceOptions(
        parent=component,
        protect=False,  # `__main__.py` protects the whole stack, but single resources may be removed
        aliases=[pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)],
        providers=list(providers) if providers is not None else None,
        depends_on=list(depends_on) if depends_on is not None else None,
    )
