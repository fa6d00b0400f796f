"""Stack file field `pools[].bootstrap`: what a company adds to nodes before they join the cluster."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from gpu_platform.base.quantity import parse_memory_mib
from gpu_platform.stack._types import Memory, SpecModel, wrong
from gpu_platform.stack.declared import On
from gpu_platform.stack.patterns import NOT_BLANK

_LOG_SIZE_MIB = (10, 500)
NodeCommand = Annotated[
    str, Field(min_length=1, max_length=4096, pattern=NOT_BLANK, examples=["sysctl -w vm.swappiness=1"])
]


class NodeScript(SpecModel):
    """Script that GKE runs on new nodes: one object in Cloud Storage, or one version of a secret."""

    gcs: str | None = Field(
        default=None, pattern=r"^gs://[a-z0-9][\w.-]+/\S+$", examples=["gs://acme-nodes/bootstrap.sh"]
    )
    """Object in Cloud Storage; with `generation`. The nodes' service account must be able to read it."""
    generation: int | None = Field(default=None, ge=1)
    """Generation of the object, so that another content is another value here: `gcloud storage objects
    describe`."""
    secret: str | None = Field(
        default=None,
        pattern=r"^projects/[^/]+/(locations/[^/]+/)?secrets/[^/]+/versions/\d+$",
        examples=["projects/acme/secrets/bootstrap/versions/3"],
    )
    """Version of a secret in Secret Manager that has the script."""

    @model_validator(mode="after")
    def _one_of(self) -> NodeScript:
        if (self.gcs is None) == (self.secret is None):
            raise wrong("exactly one of gcs and secret", "write gcs: gs://BUCKET/OBJECT and generation: NUMBER")
        if (self.gcs is None) != (self.generation is None):
            raise wrong(
                "generation with gcs, and only with it",
                "write the number that `gcloud storage objects describe` prints, or remove it",
            )
        return self


class KubeletLimits(SpecModel):
    """Settings of the kubelet that change no decision of the plan; unset: those of the image."""

    pod_pids_limit: int | None = Field(default=None, ge=1024, le=4194304)
    """Processes and threads of a pod at the same time."""
    container_log_max_size: Memory | None = Field(default=None, examples=["50Mi"])
    """Size at which a container's log is rotated, 10Mi to 500Mi."""
    container_log_max_files: int | None = Field(default=None, ge=2, le=10)
    """Files of a container's log that are kept."""
    image_gc_high_percent: int | None = Field(default=None, ge=10, le=85)
    """Use of the disk, in percent, above which unused images are deleted."""
    image_gc_low_percent: int | None = Field(default=None, ge=10, le=85)
    """Use of the disk, in percent, down to which they are deleted; below `image_gc_high_percent`."""
    cpu_cfs_quota: bool | None = None
    """Whether CPU limits throttle containers; false: they count for scheduling alone."""

    @model_validator(mode="after")
    def _in_order(self) -> KubeletLimits:
        low, high = self.image_gc_low_percent, self.image_gc_high_percent
        if low is not None and high is not None and low >= high:
            raise wrong(
                "image_gc_low_percent below image_gc_high_percent",
                f"write image_gc_low_percent: {high - 1}" if high > 10 else "write image_gc_high_percent: 85",
            )
        if self.container_log_max_size is not None:
            least, most = _LOG_SIZE_MIB
            if not least <= parse_memory_mib(self.container_log_max_size) <= most:
                raise wrong(
                    f"container_log_max_size from {least}Mi to {most}Mi", "write container_log_max_size: 50Mi"
                )
        return self


class Bootstrap(SpecModel):
    """What new nodes of a pool get before they join the cluster, in addition to what the program sets."""

    commands: Annotated[
        tuple[NodeCommand, ...],
        On(
            ("eks",),
            "GKE runs no commands of a node pool, only a script",
            fix="write script, or use a DaemonSet of your own",
        ),
    ] = Field(default=(), max_length=50, examples=[["update-ca-trust"]])
    """EKS, image family al2023: lines of a bash script that runs as root at the first boot, before the kubelet
    starts. It ends at the first line that fails; the node joins nevertheless, unless that line ends in
    `|| poweroff`. No secrets: whoever may read the launch template reads them."""
    settings: Annotated[
        dict[str, Any],
        On(
            ("eks",),
            "they are settings of Bottlerocket, which EKS has",
            fix="write kubelet or script, or use a DaemonSet of your own",
        ),
    ] = Field(
        default=dict[str, Any](),
        max_length=20,
        examples=[{"bootstrap-containers": {"acme": {"source": "IMAGE", "mode": "once", "essential": True}}}],
    )
    """EKS, image family bottlerocket: settings by their names, among them bootstrap-containers and
    bootstrap-commands; not those that the program sets. No secrets."""
    script: Annotated[
        NodeScript | None,
        On(("gke",), "EC2 nodes get commands by their user data", fix="write commands or settings"),
    ] = None
    """GKE: a bash script that GKE runs on new nodes."""
    kubelet: KubeletLimits | None = None
