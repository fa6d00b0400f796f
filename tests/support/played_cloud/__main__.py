"""The fake provider that the Pulumi engine starts as `pulumi-resource-aws`, `pulumi-resource-azure` or
`pulumi-resource-gcp`.

An environment variable names the folder with the simulated account.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import tests.support.protobuf  # noqa: F401 - must precede the SDK

from tests.support.played_cloud.provider import serve  # isort: skip

FOLDER = "PLAYED_CLOUD"
_WATCH_SECONDS = 0.5

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine stops the provider with a request
    engine = os.getppid()
    server = serve(Path(os.environ[FOLDER]))
    while os.getppid() == engine:  # a killed engine sends no request to stop
        server.wait_for_termination(timeout=_WATCH_SECONDS)
    os._exit(0)  # unfinished requests must not keep this process alive
