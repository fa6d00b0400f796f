"""The OR-tools solvers leave SIGINT handling to Python."""

from __future__ import annotations

import subprocess
import sys

from gpu_platform.base.paths import PROJECT_ROOT

PROGRAM = """
import os, signal, time
from ortools.sat.python import cp_model
from gpu_platform.base.solver import new_solver
model = cp_model.CpModel()
model.maximize(model.new_int_var(0, 3, "x"))
solver = new_solver(10)
solver.solve(model)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted with", solver.objective_value)
"""


def test_a_signal_after_a_search_is_still_an_interruption() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "interrupted with 3.0\n"), ran.stderr


def test_every_search_has_a_solver_of_this_kind() -> None:
    sources = [
        file for file in (PROJECT_ROOT / "gpu_platform").rglob("*.py") if "CpSolver(" in file.read_text("utf-8")
    ]
    assert sources == [PROJECT_ROOT / "gpu_platform" / "base" / "solver.py"]
