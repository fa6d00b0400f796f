"""Runs one process through `agent_server` and exits with its status.

    python agent_client.py SOCKET ARGUMENTS...

The client is started for every agent, so it imports as little as possible.
"""

import json
import os
import signal
import socket
import sys

_POLL_SECONDS = 1


def main(address: str, arguments: list[str]) -> int:
    """Pass arguments, environment, working directory and standard streams to the server. Return the exit code."""
    parent = os.getppid()
    request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        text = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(server, [text], [0, 1, 2])
        server.sendall(text[sent:])
        server.settimeout(_POLL_SECONDS)
        while True:
            try:
                answer = server.recv(64)
                break
            except TimeoutError:
                if os.getppid() != parent:
                    return 1  # the server kills its process when this client ends
    if not answer:
        print("the process that starts node agents has ended", file=sys.stderr)
        return 1
    code = os.waitstatus_to_exitcode(int(answer))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
