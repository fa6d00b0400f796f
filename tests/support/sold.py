"""Pools with machine types that a cloud does not sell on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_platform.catalog import load_catalog

RESERVED = {"type": "reservation", "reservation": "gpus", "zone": "us-central1-a"}


def sold(pool: Mapping[str, Any], *, reserved: bool = False) -> dict[str, Any]:
    """Return a pool. If it sets no capacity and its machine type is not sold on demand, it becomes a spot pool, or
    a reserved pool if `reserved` is true.
    """
    sale = load_catalog().sale(str(pool.get("machine_type")))
    capacity = RESERVED if reserved else {"type": "spot"}
    buys = sale is not None and capacity["type"] in sale.sold_as and not pool.get("capacity")
    return {**pool, "capacity": capacity} if buys else dict(pool)
