"""A restarted agent uses the GPU resets that the previous agent recorded on the node."""

from __future__ import annotations

import dataclasses

import pytest
from agent_tables import of_machine, simulated

from gpu_platform.base import names
from validators.agent.api_server import ApiServer
from validators.agent.calls import Journal
from validators.agent.checks import run_checks
from validators.agent.history import Remembering
from validators.agent.report import Identity
from validators.agent.resets import RESETS_ANNOTATION, SeenResets
from validators.agent.snapshot import Reading
from validators.agent.xid_check import XidTable

EXPECTED = of_machine("p5.48xlarge")
TABLE = XidTable.of(EXPECTED.expect["xid"])


class Machine:
    """A simulated node whose GPU 3 reported Xid 48 at time 0. Tests set the clock and the energy counters."""

    journal = Journal()

    def __init__(self):
        self.now, self.energy = 30.0, 5_000

    def clock(self):
        return self.now

    def read(self, deadline_seconds):
        found = simulated("p5.48xlarge", {"kind": "xid", "index": 3, "code": 48, "seconds_ago": int(self.now)})
        gpus = [dataclasses.replace(gpu, energy=Reading(self.energy)) for gpu in found.gpus]
        return dataclasses.replace(found, gpus=tuple(gpus))


def verdict(reader):
    [entry] = [one for one in run_checks(reader.read(1), EXPECTED) if one["id"] == "xid"]
    return entry["verdict"]


def agent(machine):
    reader = Remembering(machine, TABLE, machine.clock)
    return reader, SeenResets(Identity("train-0"), reader)


@pytest.fixture
def server(api, token, monkeypatch):
    monkeypatch.setenv("GPU_PLATFORM_API_SERVER", api.url)
    monkeypatch.setenv("GPU_PLATFORM_TOKEN_FILE", token)
    return ApiServer.of_environment()


def test_a_restarted_agent_knows_the_reset_that_its_predecessor_saw(api, server):
    machine = Machine()
    reader, resets = agent(machine)
    resets.recall()
    assert verdict(reader) == "fail"
    machine.now, machine.energy = 60.0, 1
    assert verdict(reader) == "pass"
    resets.keep(server)
    _, _, sent = api.requests[-1]
    api.node["metadata"]["annotations"] = sent["metadata"]["annotations"]
    machine.now, machine.energy = 90.0, 500
    reader, resets = agent(machine)
    resets.recall()
    assert verdict(reader) == "pass"
    before = len(api.requests)
    resets.keep(server)
    assert len(api.requests) == before, "no new reset is recorded"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"3": null}'])
def test_an_annotation_that_somebody_has_spoilt_ends_no_error(api, server, text):
    api.node["metadata"]["annotations"] = {RESETS_ANNOTATION: text}
    reader, resets = agent(Machine())
    resets.recall()
    assert verdict(reader) == "fail"


def test_the_annotation_is_the_one_that_the_agent_may_write():
    assert RESETS_ANNOTATION == names.RESETS_ANNOTATION
