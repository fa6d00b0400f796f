"""Stack file field `pools[].bootstrap`: commands, settings and limits that a company adds to nodes before they
join the cluster.
"""

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
    """Script that GKE runs on new nodes. It is an object in Cloud Storage or a version of a secret."""

    gcs: str | None = Field(
        default=None, pattern=r"^gs://[a-z0-9][\w.-]+/\S+$", examples=["gs://acme-nodes/bootstrap.sh"]
    )
    """Object in Cloud Storage. It requires `generation`. The nodes' service account must be able to read the
    object.
    """
    generation: int | None = Field(default=None, ge=1)
    """Generation of the object. It changes whenever the content of the object changes. `gcloud storage objects
    describe` prints it.
    """
    secret: str | None = Field(
        default=None,
        pattern=r"^projects/[^/]+/(locations/[^/]+/)?secrets/[^/]+/versions/\d+$",
        examples=["projects/acme/secrets/bootstrap/versions/3"],
    )
    """Version of a Secret Manager secret that contains the script."""

    @model_validator(mode="after")
    def _one_of(self) -> NodeScript:
        if (self.gcs is None) == (self.secret is None):
            raise wrong("exactly one of gcs and secret", "write gcs: gs://BUCKET/OBJECT and generation: NUMBER")
        if (self.gcs is None) != (self.generation is None):
            raise wrong(
                "generation if gcs is set, and only then",
                "write the number that `gcloud storage objects describe` prints, or remove it",
            )
        return self


class KubeletLimits(SpecModel):
    """Kubelet settings that do not affect the plan. An unset field keeps the default of the node image."""

    pod_pids_limit: int | None = Field(default=None, ge=1024, le=4194304)
    """Maximum number of processes and threads in a pod."""
    container_log_max_size: Memory | None = Field(default=None, examples=["50Mi"])
    """Size at which a container's log is rotated, from 10Mi to 500Mi."""
    container_log_max_files: int | None = Field(default=None, ge=2, le=10)
    """Number of log files that are kept for each container."""
    image_gc_high_percent: int | None = Field(default=None, ge=10, le=85)
    """Disk usage in percent above which the kubelet deletes unused images."""
    image_gc_low_percent: int | None = Field(default=None, ge=10, le=85)
    """Disk usage in percent at which the kubelet stops deleting unused images. It must be below
    `image_gc_high_percent`.
    """
    cpu_cfs_quota: bool | None = None
    """Whether CPU limits throttle containers. If `false`, containers may use more CPU than their limits."""

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
    """Commands, settings and kubelet limits for new nodes of a pool, in addition to the settings that the program
    chooses. They apply before a node joins the cluster.
    """

    commands: Annotated[
        tuple[NodeCommand, ...],
        On(
            ("eks",),
            "GKE node pools support only a script, and AKS node pools neither scripts nor commands",
            fix="on GKE set script, or use a DaemonSet instead",
        ),
    ] = Field(default=(), max_length=50, examples=[["update-ca-trust"]])
    """Lines of a bash script for the image family al2023 on EKS. The script runs as root at the first boot, before
    the kubelet starts. It stops at the first line that fails. The node still joins the cluster, unless that line
    ends in `|| poweroff`. Do not include secrets, because everybody who can read the launch template can read the
    commands.
    """
    settings: Annotated[
        dict[str, Any],
        On(
            ("eks",),
            "they are settings of Bottlerocket, which is only available on EKS",
            fix="set kubelet, on GKE also script, or use a DaemonSet instead",
        ),
    ] = Field(
        default=dict[str, Any](),
        max_length=20,
        examples=[{"bootstrap-containers": {"acme": {"source": "IMAGE", "mode": "once", "essential": True}}}],
    )
    """Settings for the image family bottlerocket on EKS, by name, including bootstrap-containers and
    bootstrap-commands. Settings that the program sets are refused. Do not include secrets.
    """
    script: Annotated[
        NodeScript | None,
        On(
            ("gke",),
            "EC2 nodes receive commands in their user data, and AKS nodes run no scripts",
            fix="remove script",
        ),
    ] = None
    """Bash script that GKE runs on new nodes."""
    kubelet: KubeletLimits | None = None
