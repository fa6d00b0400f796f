"""One google.rpc.Status for the Google Cloud SDK and for Pulumi's provider SDK in one process.

Both register the same message, from files of different names, which protobuf refuses. Programs never load both.
"""

import sys

from google.rpc import status_pb2

sys.modules.setdefault("pulumi.runtime.proto.status_pb2", status_pb2)
