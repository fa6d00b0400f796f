"""A Google Cloud project, simulated by a small HTTP server that answers read requests in the format of the REST
APIs.

The answers follow the REST APIs compute v1, container v1, serviceusage v1 and cloudquotas v1. They are written by
hand, not recorded. Only the answer for the cluster is checked against the protos of google-cloud-container.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from google.cloud import container_v1
from google.protobuf import json_format

from tests.support.http_servers import start_server, stop_server

PROJECT = "projects/my-project"
REGION = f"compute/v1/{PROJECT}/regions/us-central1"
MACHINE_TYPES = f"compute/v1/{PROJECT}/aggregated/machineTypes"
RESERVATION = f"compute/v1/{PROJECT}/zones/us-central1-a/reservations/h100-mega"
CLUSTER = f"v1/{PROJECT}/locations/us-central1/clusters/ml"
FAMILY_QUOTA = (
    f"v1/{PROJECT}/locations/global/services/compute.googleapis.com/"
    "quotaInfos/GPUS-PER-GPU-FAMILY-per-project-region"
)


class GoogleProject:
    """A fake Google Cloud project.

    `answers` maps request paths to response bodies. `status` maps parts of request paths to error statuses
    and their reasons.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status: dict[str, tuple[int, str]] = {}
        zones = {
            f"zones/us-central1-{letter}": {"machineTypes": [{"name": "any", "zone": f"us-central1-{letter}"}]}
            for letter in "abc"
        }
        self.answers: dict[str, dict[str, Any]] = {
            f"compute/v1/{PROJECT}": _quotas(GPUS_ALL_REGIONS=(1000, 0)),
            REGION: _quotas(NVIDIA_L4_GPUS=(100, 0), PREEMPTIBLE_NVIDIA_L4_GPUS=(100, 0)),
            MACHINE_TYPES: {
                "items": {**zones, "zones/europe-west4-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
            },
            RESERVATION: {
                "name": "h100-mega",
                "zone": f"https://www.googleapis.com/compute/v1/{PROJECT}/zones/us-central1-a",
                "status": "READY",
                "specificReservationRequired": True,
                "specificReservation": {
                    "count": "4",
                    "inUseCount": "0",
                    "instanceProperties": {"machineType": "a3-megagpu-8g"},
                },
                "resourcePolicies": {
                    "policy": f"https://www.googleapis.com/compute/v1/{PROJECT}/x/h100-mega-compact"
                },
            },
            FAMILY_QUOTA: {
                "quotaId": "GPUS-PER-GPU-FAMILY-per-project-region",
                "dimensionsInfos": [
                    {
                        "dimensions": {"gpu_family": "NVIDIA_H100", "region": "us-central1"},
                        "details": {"value": "16"},
                        "applicableLocations": ["us-central1"],
                    }
                ],
            },
            f"compute/v1/{PROJECT}/global/networks/default": {"name": "default"},
            f"{REGION}/subnetworks/default": {"name": "default", "ipCidrRange": "10.128.0.0/20"},
        }

    def add_cluster(self, **changes: Any) -> None:
        """Add a cluster `ml` with Dataplane V2 and Workload Identity."""
        cluster = {
            "name": "ml",
            "status": "RUNNING",
            "currentMasterVersion": "1.35.1-gke.1000000",
            "endpoint": "198.51.100.7",
            "controlPlaneEndpointsConfig": {
                "dnsEndpointConfig": {"endpoint": "gke-1.us-central1.gke.goog", "allowExternalTraffic": True}
            },
            "network": "default",
            "subnetwork": "default",
            "networkConfig": {"datapathProvider": "ADVANCED_DATAPATH", "enableMultiNetworking": True},
            "workloadIdentityConfig": {"workloadPool": "my-project.svc.id.goog"},
            "nodePools": [],
            **changes,
        }
        json_format.ParseDict(cluster, container_v1.Cluster.pb()())
        self.answers[CLUSTER] = cluster

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """Return the status code and the body of the response to a request path."""
        self.asked.append(path)
        status, reason = next((found for part, found in self.status.items() if part in path), (200, ""))
        if status != 200:
            return status, {"error": {"code": status, "message": reason, "details": [{"reason": reason}]}}
        if path.startswith(f"v1/{PROJECT}/services/"):
            return 200, {"name": path.removeprefix("v1/"), "state": "ENABLED"}
        if path in self.answers:
            return 200, self.answers[path]
        return 404, {"error": {"code": 404, "message": "not found", "errors": [{"reason": "notFound"}]}}


def _quotas(**quotas: tuple[int, int]) -> dict[str, Any]:
    return {"quotas": [{"metric": name, "limit": limit, "usage": use} for name, (limit, use) in quotas.items()]}


@contextmanager
def google_project() -> Generator[GoogleProject]:
    """Serve a fake project to this process, with an access token that the server does not check."""
    project = GoogleProject()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Authorization"] == "Bearer token"
            status, document = project.answer(urlsplit(self.path).path.lstrip("/"))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Suppress the log line of each request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    start_server(server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "token")
        for api in ("COMPUTE", "CONTAINER", "SERVICEUSAGE", "CLOUDQUOTAS", "STORAGE"):
            patch.setenv(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}", f"http://127.0.0.1:{server.server_port}/")
        try:
            yield project
        finally:
            stop_server(server)
