"""Creates OR-tools solvers for integer models."""

from __future__ import annotations

from typing import Any


def new_solver(seconds: float | None = None) -> Any:  # noqa: ANN401 - ortools has no types
    """Return a solver with one worker. The solver gives up after `seconds`.

    The solver leaves SIGINT to Python. If OR-tools handled SIGINT, the default action would be restored after a
    search. A later Ctrl-C would then kill the process without any clean-up (seen with ortools 9.12.4544,
    2026-11-25).
    """
    # Imported only here, because the import takes half a second and few commands need it.
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False
    solver.parameters.num_workers = 1
    if seconds is not None:
        solver.parameters.max_time_in_seconds = seconds
    return solver
