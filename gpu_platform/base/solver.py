"""Creates solvers of OR-tools for models of integers."""

from __future__ import annotations

from typing import Any


def new_solver(seconds: float | None = None) -> Any:  # noqa: ANN401 - ortools has no types
    """Return a solver with one worker, which gives up after `seconds`.

    It leaves SIGINT to Python. OR-tools' own handler is replaced by the default action after a search, so that a
    later Ctrl-C kills the process, which then tidies up nothing (seen with ortools 9.12.4544, 2026-11-25).
    """
    # The import takes half a second, and few commands need it.
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False
    solver.parameters.num_workers = 1
    if seconds is not None:
        solver.parameters.max_time_in_seconds = seconds
    return solver
