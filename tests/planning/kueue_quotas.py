"""A model of quotas as Kueue counts them, built from the objects of a plan. It shares no code with the planner.

It follows kubernetes-sigs/kueue v0.19.2, pkg/cache/scheduler/resource_node.go (available, localQuota), and the
reclaiming of borrowed quota with `reclaimWithinCohort: Any`. Read 2026-11-28.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.queues.section import QueuesPlan

Cell = tuple[str, str]
"""The names of a flavor and of a resource."""
Amounts = Mapping[str, Fraction]


class Quotas:
    """A model of the quota usage of all queues in a plan whose teams share a single cohort."""

    def __init__(self, plan: QueuesPlan) -> None:
        self.nominal: dict[str, dict[Cell, Fraction]] = {}
        self.borrow: dict[str, dict[Cell, Fraction]] = {}
        self.lend: dict[str, dict[Cell, Fraction]] = {}
        self.usage: dict[str, dict[Cell, Fraction]] = {}
        self.flavors: dict[str, list[str]] = {}
        for queue in plan.teams:
            name = queue.namespace
            self.flavors[name] = [flavor.flavor for flavor in queue.flavors]
            for table in (self.nominal, self.borrow, self.lend, self.usage):
                table[name] = {}
            for flavor in queue.flavors:
                for limit in flavor.limits:
                    cell = (flavor.flavor, limit.resource)
                    self.nominal[name][cell] = Fraction(parse_quantity(limit.nominal))
                    self.borrow[name][cell] = Fraction(parse_quantity(limit.borrow))
                    self.lend[name][cell] = Fraction(parse_quantity(limit.lend))
        (cohort,) = plan.cohorts
        self.lent = {
            (flavor, resource): Fraction(parse_quantity(amount))
            for flavor, amounts in cohort.flavors.items()
            for resource, amount in amounts.items()
        }

    def total(self, cell: Cell) -> Fraction:
        """Return the total nominal quota of the cohort and of all queues for a flavor and resource."""
        return sum(
            (part.get(cell, Fraction(0)) for part in self.nominal.values()), self.lent.get(cell, Fraction(0))
        )

    def available(self, queue: str, cell: Cell) -> Fraction:
        own = max(
            Fraction(0), self.nominal[queue].get(cell, Fraction(0)) - self.lend[queue].get(cell, Fraction(0))
        )
        used = self.usage[queue].get(cell, Fraction(0))
        in_cohort = self.lent.get(cell, Fraction(0))
        for name, nominal in self.nominal.items():
            kept = max(Fraction(0), nominal.get(cell, Fraction(0)) - self.lend[name].get(cell, Fraction(0)))
            in_cohort += nominal.get(cell, Fraction(0)) - kept
            in_cohort -= max(Fraction(0), self.usage[name].get(cell, Fraction(0)) - kept)
        up_to_limit = self.nominal[queue].get(cell, Fraction(0)) + self.borrow[queue].get(cell, Fraction(0)) - used
        return max(Fraction(0), min(max(Fraction(0), own - used) + in_cohort, up_to_limit))

    def start(self, queue: str, job: Amounts) -> str | None:
        """Start a job on the first flavor with enough quota. Return the flavor, or None if no flavor has it."""
        for flavor in self.flavors[queue]:
            if all(amount <= self.available(queue, (flavor, name)) for name, amount in job.items()):
                for name, amount in job.items():
                    cell = (flavor, name)
                    self.usage[queue][cell] = self.usage[queue].get(cell, Fraction(0)) + amount
                return flavor
        return None

    def reclaim(self, queue: str, flavor: str) -> None:
        """Stop the jobs of other queues that borrow quota of a flavor."""
        for name, cell in list(self._borrowed(flavor)):
            if name != queue:
                self.usage[name][cell] = self.nominal[name].get(cell, Fraction(0))

    def _borrowed(self, flavor: str) -> Iterator[tuple[str, Cell]]:
        for name, used in self.usage.items():
            for cell, amount in used.items():
                if cell[0] == flavor and amount > self.nominal[name].get(cell, Fraction(0)):
                    yield name, cell
