"""Shares one google.rpc.Status between the Google Cloud SDK and Pulumi's provider SDK in one process.

Both SDKs register the same message from files with different names, which protobuf refuses. Outside the tests, no
program loads both SDKs.
"""

import sys

from google.rpc import status_pb2

sys.modules.setdefault("pulumi.runtime.proto.status_pb2", status_pb2)
