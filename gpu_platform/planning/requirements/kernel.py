"""Choose the kernel settings of a pool's nodes for their intended use."""

from __future__ import annotations

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes.section import HUGE_PAGE_MIB, KernelSettings
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import Pool

_HUGE_PAGES_PREFIX = "vm.nr_hugepages"
_LARGEST_SHARE = 0.5
"""Maximum share of a node's memory for huge pages. Ordinary memory requests cannot use memory that is reserved for
huge pages.
"""


def check_kernel(pool: Pool, machine: MachineType, problems: Problems) -> None:
    """Record problems with kernel settings that nodes cannot have on any cloud. `problems` points to the pool."""
    if pool.tuning is None:
        return
    here = problems.at("tuning")
    for name in pool.tuning.sysctls:
        if name.startswith(_HUGE_PAGES_PREFIX):
            here.at("sysctls").at(name).add(
                f"{name!r}",
                "tuning.huge_pages, so that the plan includes the memory of huge pages",
                "write tuning.huge_pages",
            )
    pages, most = pool.tuning.huge_pages or 0, int(machine.memory_mib * _LARGEST_SHARE / HUGE_PAGE_MIB)
    if pages > most:
        here.at("huge_pages").add(
            f"{pages} pages of {HUGE_PAGE_MIB} MiB on {machine.name}",
            f"at most {most}, half of the machine's memory, because pods can use this memory only as huge pages",
            f"write huge_pages: {most} or less",
        )


def plan_kernel(pool: Pool, catalog: Catalog) -> Decided[KernelSettings | None]:
    """Return the kernel settings of a pool, or None to keep the image's settings."""
    tuning = pool.tuning
    if tuning is None:
        return Decided(None)
    profile = catalog.kernel_settings[tuning.intent] if tuning.intent is not None else None
    declared = {name: str(value) for name, value in tuning.sysctls.items()}
    settings = KernelSettings(
        sysctls={**(profile.sysctls if profile is not None else {}), **declared},
        huge_pages=tuning.huge_pages or 0,
    )
    chosen = [counted(len(settings.sysctls), "sysctl")] if settings.sysctls else []
    if settings.huge_pages:
        chosen.append(f"{counted(settings.huge_pages, 'huge page')} of {HUGE_PAGE_MIB} MiB")
    decision = Decision(
        subject=f"pool {pool.name}",
        what="kernel settings",
        chosen=", ".join(chosen) or "the image's settings",
        why=f"intent {tuning.intent}: {profile.because}" if profile is not None else "the stack file sets them",
    )
    return Decided(settings, (decision,))
