"""Names of CSI drivers of AWS, and what a driver does with the files of a deleted claim."""

from __future__ import annotations

from typing import Final

EBS_DRIVER: Final = "ebs.csi.aws.com"
EFS_DRIVER: Final = "efs.csi.aws.com"
FSX_DRIVER: Final = "fsx.csi.aws.com"
KEEPS_FILES: Final = frozenset({EFS_DRIVER})
"""Drivers that keep the files of a deleted claim on the file system, even with reclaim policy Delete.

Source: kubernetes-sigs/aws-efs-csi-driver, README.md, `delete-access-point-root-dir`, and #411; read 2026-11-30.
"""
