"""Makes NVML calls and keeps their answers, so that a pass can go on in a new process after a call that hangs.

Each call has a text that names it (`nvmlDeviceGetEccMode on GPU 3`). It is announced before it is made and
answered after it, each as one message. A later process gets the answers so far and makes only the calls that have
none.
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
"""Problems of calls without an answer of NVML."""

CALL = "call"
ANSWER = "answer"
SNAPSHOT = "snapshot"
END = "end"

NO_HANDLE: Any = object()
"""In place of a handle that this process does not have: no call is made with it."""

Emit = Callable[[list[Any]], None]
Kind = Callable[[Exception], str]


@dataclass(frozen=True)
class Call:
    """One NVML call: function, device (`GPU 3`, "" for the node), and what tells it from others of them."""

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
        """Return the call that a text names; the detail stays part of the function's text."""
        name, _, device = text.partition(" on ")
        function, _, detail = name.partition(" ")
        return cls(function, device, detail)

    @property
    def gpu(self) -> str:
        """The GPU of the device, which may be one of its MIG devices; "" for the node."""
        return self.device.rpartition(" of ")[2]


@dataclass
class Journal:
    """Answers of one pass, and the calls without an answer of NVML, after which others are left out."""

    answers: dict[str, list[Any]] = field(default_factory=dict[str, "list[Any]"])
    """Value and problem by call."""
    lost: list[Call] = field(default_factory=list["Call"])
    wait_seconds: float = 0.0
    """Not 0: the child waits for events for so long, and reads nothing else."""

    def lose(self, text: str, problem: str) -> None:
        """Record that a call did not return or ended its process."""
        self.answers[text] = [None, problem]
        self.lost.append(Call.parse(text))

    def left_out(self, call: Call) -> bool:
        """Whether a call is not made, because calls like it had no answer.

        One is enough for its function on the same GPU. After calls of one function on two GPUs no other GPU is
        asked, and after calls of two functions a GPU is asked nothing more.
        """
        gpus = {each.gpu for each in self.lost if each.function == call.function}
        functions = {each.function for each in self.lost if each.gpu == call.gpu}
        return call.gpu in gpus or len(gpus) > 1 or (call.gpu != "" and len(functions) > 1)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "answers": self.answers,
            "lost": [str(call) for call in self.lost],
            "wait_seconds": self.wait_seconds,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Journal:
        """Return the journal that `to_json` wrote."""
        return cls(dict(data["answers"]), [Call.parse(text) for text in data["lost"]], data["wait_seconds"])


class Calls:
    """Makes each call at most once; without `live` it only repeats the answers of the journal."""

    def __init__(self, journal: Journal, emit: Emit, kind: Kind, *, live: bool = True) -> None:
        self._journal = journal
        self._emit = emit
        self._kind = kind
        self._live = live
        self._handles: dict[str, Reading[Any]] = {}

    @property
    def journal(self) -> Journal:
        """The answers so far."""
        return self._journal

    def value(
        self, call: Call, function: Callable[..., Any], arguments: Iterable[Any], convert: Callable[[Any], Any]
    ) -> Reading[Any]:
        """Return the answer of a call, converted to plain JSON values."""
        text = str(call)
        if text not in self._journal.answers:
            reading = self._make(call, function, arguments)
            if reading.ok:
                try:
                    reading = Reading[Any](convert(reading.value))
                except Exception as error:  # whatever a library may answer
                    reading = Reading[Any](problem=self._kind(error), call=call.function)
            self._keep(text, reading)
        value, problem = self._journal.answers[text]
        return Reading(value, problem, call.function if problem else "")

    def handle(self, call: Call, function: Callable[..., Any], *arguments: object) -> Reading[Any]:
        """Return a handle, which each process must ask for itself; NO_HANDLE where the call is not made again."""
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
        except Exception as error:  # whatever a library may do
            return Reading(problem=self._kind(error), call=call.function)

    def _keep(self, text: str, reading: Reading[Any]) -> None:
        self._journal.answers[text] = [reading.value, reading.problem]
        if reading.problem != NOT_CALLED:
            self._emit([ANSWER, text, reading.value, reading.problem])
