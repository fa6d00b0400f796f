"""Compares every verdict of `capacity` with brute force, on random small stacks.

    python benchmarks/capacity_proof.py --stacks 10000 --seed 1

`brute_force.py` computes the correct verdict, and shares neither code nor data with the planner. The program skips
stacks that the planner refuses because a quota exceeds the capacity of all nodes. It also skips stacks with too
many placements to try. It replaces each skipped stack with another, and prints the number of skipped stacks. It
exits with code 1 if a verdict differs or is `unknown`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from typing import Any, NamedTuple

from brute_force import TooLarge, fits, has_units
from random_stacks import random_stack

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.capacity_document import capacity_document
from gpu_platform.planning.capacity import report_capacity
from gpu_platform.stack.loaded import plan_platform


class Compared(NamedTuple):
    """A stack with the verdicts of the planner and of brute force.

    `planner` is None if the planner refuses the stack. `truth` is None if the stack has too many placements to
    try.
    """

    seed: int
    provider: str
    planner: str | None
    truth: str | None
    refusal: str = ""


def compare(seed: int) -> Compared:
    """Return the verdicts of the planner and of brute force for the stack that is generated from a seed."""
    stack = random_stack(seed)
    provider = stack["cluster"]["provider"]
    try:
        verdict = verdict_of_capacity(stack)
    except BadInput as refusal:
        return Compared(seed, provider, None, None, str(refusal))
    try:
        return Compared(seed, provider, verdict, fits(stack))
    except TooLarge:
        return Compared(seed, provider, verdict, None)


def verdict_of_capacity(stack: dict[str, Any]) -> str:
    """Return the verdict that `capacity` prints. Raises BadInput if the stack is invalid."""
    plan, catalog = plan_platform(stack, "random"), load_catalog()
    assert plan.kind == "environment"
    return capacity_document(plan, report_capacity(plan, catalog))["quotas"]["verdict"]


def main() -> int:
    """Compare the verdicts for the requested number of stacks and print the results; return the exit code."""
    parser = argparse.ArgumentParser(description="Compare every verdict of `capacity` with brute force.")
    parser.add_argument("--stacks", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="seed of the first stack")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    began = time.monotonic()
    verdicts: Counter[tuple[str, str]] = Counter()
    wrong: list[Compared] = []
    refused = too_large = by_packing = 0
    with ProcessPoolExecutor(given.workers) as workers:
        for one in _enough(workers, given.seed):
            if one.planner is None:
                refused += 1
                continue
            if one.truth is None:
                too_large += 1
                continue
            verdicts[one.provider, one.truth] += 1
            by_packing += one.truth == "impossible" and has_units(random_stack(one.seed))
            if one.planner != one.truth:
                wrong.append(one)
                print(f"seed {one.seed}: capacity {one.planner}, brute force {one.truth}", file=sys.stderr)
                print(json.dumps(random_stack(one.seed)), file=sys.stderr)
            if not verdicts.total() % 1000:
                took = time.monotonic() - began
                print(
                    f"{verdicts.total()} of {given.stacks} in {took:.0f} s, {len(wrong)} differ", file=sys.stderr
                )
            if verdicts.total() == given.stacks:
                break
        workers.shutdown(cancel_futures=True)
    for (provider, verdict), number in sorted(verdicts.items()):
        print(f"{provider}: {number} {verdict}")
    print(f"impossible although the nodes have enough units of each resource in total: {by_packing}")
    print(
        f"not compared: {refused} stacks that the planner refuses,"
        f" {too_large} stacks with too many placements to try"
    )
    print(f"{verdicts.total()} stacks from seed {given.seed}: {len(wrong)} verdicts differ from brute force")
    return 1 if wrong else 0


def _enough(workers: ProcessPoolExecutor, first: int) -> Iterator[Compared]:
    """Yield the comparisons in seed order."""
    seeds = count(first)
    while True:
        yield from workers.map(compare, islice(seeds, 400), chunksize=20)


if __name__ == "__main__":
    sys.exit(main())
