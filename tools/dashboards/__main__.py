"""`python -m tools.dashboards`: writes the JSON files of the dashboards, which gpu-platform reads. `--check` only
compares the files.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from tools.dashboards.boards import BOARDS, build

FOLDER = Path(__file__).resolve().parents[2] / "gpu_platform" / "planning" / "monitoring" / "dashboards"


def documents() -> Mapping[str, str]:
    """Return the JSON of every dashboard, by file name."""
    return {
        f"{board.name}.json": JSONEncoder(sort_keys=True, indent=1).encode(build(board)) + "\n" for board in BOARDS
    }


def main() -> int:
    """Write or compare the files, and return the exit code."""
    found = documents()
    if "--check" in sys.argv[1:]:
        stale = [name for name, text in found.items() if not _is(FOLDER / name, text)]
        for name in stale:
            print(f"{FOLDER / name} is out of date: run python -m tools.dashboards", file=sys.stderr)
        return 1 if stale else 0
    for name, text in found.items():
        (FOLDER / name).write_text(text, "utf-8")
    return 0


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
