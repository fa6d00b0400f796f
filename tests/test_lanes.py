"""How the tests of a run are handed to its workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.lanes import Lanes

SANDBOX = [f"tests/e2e/test_{name}.py::test_{number}@e2e-{name}" for name in "abcd" for number in range(4)]
COMPUTING = [f"tests/spec/test_{name}.py::test_{number}[a@b]" for name in "abcd" for number in range(4)]


class Worker:
    """A worker that notes the tests that it is sent."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.sent: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def workers() -> list[Any]:
    return [Worker(f"gw{number}") for number in range(3)]


@pytest.fixture
def lanes(workers: list[Any]) -> Lanes:
    config: Any = SimpleNamespace(
        getvalue=lambda _: ["popen"] * len(workers), option=SimpleNamespace(loadscopereorder=False)
    )
    # pyrefly: ignore[bad-argument-type]
    found = Lanes(config, SimpleNamespace(loadscopesched=print, loadgroupsched=print))
    for worker in workers:
        found.add_node(worker)
        found.add_node_collection(worker, [*SANDBOX, *COMPUTING])
    found.schedule()
    return found


def begun(worker: Any) -> set[str]:
    return {[*SANDBOX, *COMPUTING][index] for index in worker.sent}


def test_every_third_worker_begins_with_a_file_and_the_others_with_a_group_of_a_sandbox(
    lanes: Lanes, workers: list[Any]
) -> None:
    assert lanes.has_pending
    assert [begun(worker) for worker in workers] == [set(SANDBOX[:4]), set(SANDBOX[4:8]), set(COMPUTING[:4])]


def test_a_worker_gets_its_next_group_when_the_last_test_of_the_one_before_is_to_begin(
    lanes: Lanes, workers: list[Any]
) -> None:
    worker = workers[0]
    for index in worker.sent[:2]:
        lanes.mark_test_complete(worker, index)
    assert begun(worker) == set(SANDBOX[:4])
    lanes.mark_test_complete(worker, worker.sent[2])
    assert begun(worker) == set(SANDBOX[:4] + SANDBOX[8:12])


def test_all_tests_are_run_once_also_after_a_worker_crashed(lanes: Lanes, workers: list[Any]) -> None:
    done: list[int] = []

    def run_one(worker: Any) -> bool:
        """Run a test, as a worker does: it waits until it has the next one, or is told that there is none."""
        if len(worker.sent) < 2 and not (worker.sent and worker.shutting_down):
            return False
        done.append(worker.sent.pop(0))
        lanes.mark_test_complete(worker, done[-1])
        return True

    crashing = workers[-1]
    while len(done) < 14:  # three files and half of the last one
        assert run_one(crashing)
    assert lanes.remove_node(workers.pop()) == COMPUTING[14]
    while any(run_one(worker) for worker in workers):
        pass

    assert sorted(done) == list(range(len([*SANDBOX, *COMPUTING])))
    assert not lanes.has_pending
