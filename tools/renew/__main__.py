"""`python -m tools.renew CLOUD`: compares the catalogue's machine types with the cloud's values.

The command sends read-only requests with your credentials and changes nothing in the cloud. It exits with code 0
if nothing differs, 1 if something differs, and 2 if the cloud could not be queried.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpu_platform.catalog import load_catalog
from gpu_platform.online.finding import NotLookedAt
from gpu_platform.online.google.api import Disabled
from tools.renew import aws, azure, google
from tools.renew.compare import Comparison, compare
from tools.renew.write import new_entry, write

_CLOUDS: Final = {"aws": aws, "azure": azure, "gcp": google}  # by vendor in the catalogue
FACTS = Path(__file__).resolve().parents[2] / "gpu_platform" / "catalog" / "facts"


def main(words: Sequence[str] | None = None) -> int:
    """Query the cloud, print the differences, and write them on request. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.renew", description=(__doc__ or "").splitlines()[0])
    clouds = parser.add_subparsers(dest="cloud", required=True)
    for name, module in _CLOUDS.items():
        command = clouds.add_parser(name)
        command.add_argument(
            "--write", action="store_true", help="write the cloud's values to the catalogue's files"
        )
        command.add_argument("--format", choices=["text", "json"], default="text")
        module.add_options(command)
    options = parser.parse_args(words)
    cloud = _CLOUDS[options.cloud]
    catalog = load_catalog()
    try:
        ours = [name for name, machine in catalog.machine_types.items() if machine.vendor == options.cloud]
        seen = cloud.look_up(options, ours, catalog)
        comparison = compare(catalog, options.cloud, seen, options.region or ())
    except NotLookedAt as reason:
        print(f"error: {reason}. Fix: {reason.fix}", file=sys.stderr)
        return 2
    except Disabled as reason:
        print(f"error: {reason}. Fix: enable it in the project", file=sys.stderr)
        return 2
    left = write(FACTS, comparison.differences) if options.write else frozenset(comparison.differences)
    if options.format == "json":
        print(json.dumps(dataclasses.asdict(comparison), indent=2, default=sorted))
    else:
        _print(comparison, written=len(comparison.differences) - len(left) if options.write else None)
    return 0 if comparison.is_equal else 1


def _print(comparison: Comparison, written: int | None) -> None:
    for one in comparison.differences:
        print(f"{one.machine_type}: {one.where}: catalogue {one.catalogue}, cloud {one.cloud}")
    for name in comparison.gone:
        print(f"{name}: in the catalogue, but not described by the cloud")
    for seen in comparison.new:
        print(f"{seen.name}: not in the catalogue")
        if seen.facts:
            print(new_entry(seen.name, seen.gpu, seen.facts))
    if comparison.is_equal:
        print("the catalogue matches the cloud")
    elif written is None:
        print("write the differences with --write, then set the date of the source")
    else:
        print(f"{written} of {len(comparison.differences)} written: set the source's date, and review the diff")


if __name__ == "__main__":
    sys.exit(main())
