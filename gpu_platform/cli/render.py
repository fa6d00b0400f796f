"""`gpu-platform render`: write the resources of a stack to files."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_platform.base.quantity import counted
from gpu_platform.deploy.recorded.render import write_render
from gpu_platform.planning import plan_to_json
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack


def render_to(stack: str, out: Path, *, to_json: bool = False) -> None:
    """Write resources.json, manifests, state.json and plan.json of a stack to the folder `out`."""
    loaded = load_stack(stack)
    program = record_stack(loaded)
    write_render(out, program, plan_to_json(loaded.plan))
    if to_json:
        document = {"version": 1, "stack": loaded.stack, "folder": str(out), "resources": len(program.resources)}
        print(json.dumps(document, indent=2))
        return
    print(f"{counted(len(program.resources), 'resource')} of stack {loaded.stack} written to {out}")
