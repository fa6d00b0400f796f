"""Runs a stack's program as `pulumi up` would, with a moto account instead of AWS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from google.protobuf import struct_pb2
from pulumi.runtime.proto import resource_pb2

from gpu_platform.deploy.recorded import record as recording
from gpu_platform.deploy.recorded.properties import plain_properties
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack
from tests.components.eks.moto_cloud import MotoCloud
from tests.components.eks.moto_lookups import answer
from tests.support.recorded import Recorded


def deploy(loaded: LoadedStack, cloud: MotoCloud) -> Recorded:
    """Create every AWS resource of a stack in `cloud`, and return the recorded program."""

    class Deployer(recording._Recorder):
        def RegisterResource(
            self, request: resource_pb2.RegisterResourceRequest
        ) -> resource_pb2.RegisterResourceResponse:
            response = super().RegisterResource(request)
            record = self._records[response.urn]
            if not record.type.startswith("aws:"):
                return response
            own_id, outputs = cloud.make(record)
            self._records[record.urn] = replace(record, id=own_id)
            known = struct_pb2.Struct()
            known.CopyFrom(request.object)
            known.update(outputs)
            return resource_pb2.RegisterResourceResponse(urn=record.urn, id=own_id, object=known)

        def Invoke(self, request: resource_pb2.ResourceInvokeRequest) -> resource_pb2.ResourceInvokeResponse:
            known = struct_pb2.Struct()
            known.update(answer(cloud, request.tok, plain_properties(request.args, reveal=True)))
            return resource_pb2.ResourceInvokeResponse(**cast("Any", {"return": known}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "_Recorder", Deployer)
        return Recorded(record_stack(loaded, preview=False))
