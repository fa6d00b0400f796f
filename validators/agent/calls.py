"""Makes NVML calls and records the answers, so that a new process can continue a pass after a call that hangs.

The text of a call identifies it, such as `nvmlDeviceGetEccMode on GPU 3`. A message announces each call before it
is made, and a second message contains its answer. A later process receives all recorded answers and makes only the
calls that have no answer yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from validators.agent.snapshot import Reading

DID_NOT_RETURN = "did-not-return"
ENDED_THE_PROCESS = "ended-the-process"
NOT_CALLED = "not-called"
NO_ANSWER = (DID_NOT_RETURN, ENDED_THE_PROCESS, NOT_CALLED)
"""Problems that are recorded for calls that NVML did not answer."""

CALL = "call"
ANSWER = "answer"
SNAPSHOT = "snapshot"
END = "end"

NO_HANDLE: Any = object()
"""Placeholder for a handle that this process does not have. No call is made with it."""

Emit = Callable[[list[Any]], None]
Kind = Callable[[Exception], str]


@dataclass(frozen=True)
class Call:
    """One NVML call, with its function, its device and a detail that distinguishes calls of the same function.

    `device` is a string such as `GPU 3`, or "" for the node.
    """

    function: str
    device: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return (
            self.function
            + (f" {self.detail}" if self.detail else "")
            + (f" on {self.device}" if self.device else "")
        )

    @classmethod
    def parse(cls, text: str) -> Call:
        """Parse the text of a call. The first word is the function, and the remaining text is the detail."""
        name, _, device = text.partition(" on ")
        function, _, detail = name.partition(" ")
        return cls(function, device, detail)

    @property
    def gpu(self) -> str:
        """The GPU itself, the GPU of a MIG device, or "" for the node."""
        return self.device.rpartition(" of ")[2]


@dataclass
class Journal:
    """The answers of one pass, and the calls that NVML did not answer. Similar calls are not made again."""

    answers: dict[str, list[Any]] = field(default_factory=dict[str, "list[Any]"])
    """Value and problem of each call, by the call's text."""
    lost: list[Call] = field(default_factory=list["Call"])
    wait_seconds: float = 0.0
    """If not 0, the child process only waits for events, for this number of seconds."""

    def lose(self, text: str, problem: str) -> None:
        """Record that a call did not return, or that it ended its process."""
        self.answers[text] = [None, problem]
        self.lost.append(Call.parse(text))

    def left_out(self, call: Call) -> bool:
        """Whether to skip a call because similar calls had no answer.

        After one unanswered call, its function is not called again on the same GPU. If a function had no answer on
        two GPUs, it is not called on any other GPU. If two functions had no answer on a GPU, no other function is
        called on that GPU.
        """
        gpus = {each.gpu for each in self.lost if each.function == call.function}
        functions = {each.function for each in self.lost if each.gpu == call.gpu}
        return call.gpu in gpus or len(gpus) > 1 or (call.gpu != "" and len(functions) > 1)

    def to_json(self) -> dict[str, Any]:
        """Return the journal as plain JSON values."""
        return {
            "answers": self.answers,
            "lost": [str(call) for call in self.lost],
            "wait_seconds": self.wait_seconds,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Journal:
        """Return the journal from the JSON values that `to_json` wrote."""
        return cls(dict(data["answers"]), [Call.parse(text) for text in data["lost"]], data["wait_seconds"])


class Calls:
    """Makes each call at most once. Without `live`, it only returns the answers in the journal."""

    def __init__(self, journal: Journal, emit: Emit, kind: Kind, *, live: bool = True) -> None:
        self._journal = journal
        self._emit = emit
        self._kind = kind
        self._live = live
        self._handles: dict[str, Reading[Any]] = {}

    @property
    def journal(self) -> Journal:
        """The answers recorded so far."""
        return self._journal

    def value(
        self, call: Call, function: Callable[..., Any], arguments: Iterable[Any], convert: Callable[[Any], Any]
    ) -> Reading[Any]:
        """Return the answer to a call, converted to plain JSON values."""
        text = str(call)
        if text not in self._journal.answers:
            reading = self._make(call, function, arguments)
            if reading.ok:
                try:
                    reading = Reading[Any](convert(reading.value))
                except Exception as error:  # the bindings may raise any exception
                    reading = Reading[Any](problem=self._kind(error), call=call.function)
            self._keep(text, reading)
        value, problem = self._journal.answers[text]
        return Reading(value, problem, call.function if problem else "")

    def handle(self, call: Call, function: Callable[..., Any], *arguments: object) -> Reading[Any]:
        """Return a handle, which each process must request for itself.

        Return `NO_HANDLE` if an earlier process received the handle and the call must not be made again.
        """
        text = str(call)
        if text not in self._handles:
            known = self._journal.answers.get(text)
            if known is not None and known[1]:
                reading: Reading[Any] = Reading(problem=known[1], call=call.function)
            elif known is not None and (not self._live or self._journal.left_out(call)):
                reading = Reading(NO_HANDLE)
            else:
                reading = self._make(call, function, arguments)
                self._keep(text, Reading(True) if reading.ok else reading)
            self._handles[text] = reading
        return self._handles[text]

    def _make(self, call: Call, function: Callable[..., Any], arguments: Iterable[Any]) -> Reading[Any]:
        given = list(arguments)
        if not self._live or any(each is NO_HANDLE for each in given) or self._journal.left_out(call):
            return Reading(problem=NOT_CALLED, call=call.function)
        self._emit([CALL, str(call)])
        try:
            return Reading(function(*given))
        except Exception as error:  # the bindings may raise any exception
            return Reading(problem=self._kind(error), call=call.function)

    def _keep(self, text: str, reading: Reading[Any]) -> None:
        self._journal.answers[text] = [reading.value, reading.problem]
        if reading.problem != NOT_CALLED:
            self._emit([ANSWER, text, reading.value, reading.problem])
