"""Answer questions over HTTP in batches, because a model computes a batch nearly as fast as a single text.

`POST /complete` accepts {"text": "after 41: ", "characters": 2}. `/healthz` returns 200 once the model is loaded.
`/metrics` contains the number of waiting requests for an autoscaler. After SIGTERM, accepted requests are still
answered.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from miniature import Model, base_model, completed

MOST = int(os.environ.get("MOST_IN_A_BATCH", "16"))
# Seconds that the first request of a batch waits for others.
WAIT_SECONDS = float(os.environ.get("WAIT_SECONDS", "0.01"))


@dataclass
class Request:
    """A queued prompt and its completion."""

    text: str
    characters: int
    answer: Future[str] = field(default_factory=Future)


class Batcher:
    """Runs the requests of many threads on one thread, in batches."""

    def __init__(self, model: torch.nn.Module, most: int = MOST, wait: float = WAIT_SECONDS) -> None:
        self._model, self._most, self._wait = model, most, wait
        self._requests: queue.Queue[Request | None] = queue.Queue()
        self.answered = self.batches = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of requests that are not in a batch yet."""
        return self._requests.qsize()

    def ask(self, text: str, characters: int) -> str:
        """Return the model's completion of a text. Raises ValueError for unknown characters."""
        request = Request(text, characters)
        self._requests.put(request)
        return request.answer.result()

    def end(self) -> None:
        """Answer all waiting requests, then stop."""
        self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._requests.get()) is not None:
            taken, last = self._others(first)
            for characters in {one.characters for one in taken}:
                self._answer([one for one in taken if one.characters == characters], characters)
            if last:
                return

    def _others(self, first: Request) -> tuple[list[Request], bool]:
        """Return the batch that starts with a request, and whether `end` was called in the meantime."""
        taken, until = [first], time.monotonic() + self._wait
        while len(taken) < self._most:
            try:
                one = self._requests.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if one is None:
                return taken, True
            taken.append(one)
        return taken, False

    def _answer(self, requests: list[Request], characters: int) -> None:
        try:
            answers = completed(self._model, [one.text for one in requests], characters)
        except ValueError as error:
            if len(requests) == 1:
                requests[0].answer.set_exception(error)
            else:  # an invalid text must not make the other requests fail
                for one in requests:
                    self._answer([one], characters)
            return
        self.batches += 1
        self.answered += len(requests)
        for one, answer in zip(requests, answers, strict=True):
            one.answer.set_result(answer)


def load() -> torch.nn.Module:
    """Load the model from the file MODEL, or train the base model."""
    file = os.environ.get("MODEL")
    if file is None:
        model: torch.nn.Module = base_model()
    else:
        model = Model()
        model.load_state_dict(torch.load(Path(file), weights_only=True))
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


class Handler(BaseHTTPRequestHandler):
    """Handles one request in its own thread."""

    batcher: Batcher | None = None

    def do_GET(self) -> None:
        """Answer probes and Prometheus."""
        batcher = self.batcher
        if self.path == "/healthz":
            self._send(
                200 if batcher is not None else 503, "text/plain", "ok" if batcher is not None else "loading"
            )
        elif self.path == "/metrics" and batcher is not None:
            lines = (
                ("inference_requests_waiting", "gauge", batcher.waiting),
                ("inference_requests_total", "counter", batcher.answered),
                ("inference_batches_total", "counter", batcher.batches),
            )
            text = "".join(f"# TYPE {name} {kind}\n{name} {value}\n" for name, kind, value in lines)
            self._send(200, "text/plain; version=0.0.4", text)
        else:
            self._send(404, "text/plain", "not found")

    def do_POST(self) -> None:
        """Answer a completion request."""
        try:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            text, characters = str(asked["text"]), int(asked.get("characters", 2))
            if self.batcher is None or self.path != "/complete" or not 0 < characters < 10:
                raise ValueError("expected POST /complete with `text` and `characters` (1 to 9)")
            answer = self.batcher.ask(text, characters)
        except (ValueError, KeyError, TypeError) as error:
            self._send(400, "application/json", json.dumps({"error": str(error)}))
        else:
            self._send(200, "application/json", json.dumps({"answer": answer}))

    def _send(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Disable the log line for each request."""


class Server(ThreadingHTTPServer):
    """HTTP server that waits for its threads when it stops."""

    daemon_threads = False
    request_queue_size = 256


def main() -> None:
    """Serve until SIGTERM."""
    server = Server(("", int(os.environ.get("PORT", "8080"))), Handler)
    # The signal handler interrupts serve_forever, so another thread must call shutdown, which waits for it.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    loading = threading.Thread(target=_load_into_handler)
    loading.start()
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()
    server.server_close()
    loading.join()
    if Handler.batcher is not None:
        Handler.batcher.end()
        print(f"answered {Handler.batcher.answered} requests in {Handler.batcher.batches} batches", flush=True)


def _load_into_handler() -> None:
    Handler.batcher = Batcher(load())


if __name__ == "__main__":
    main()
