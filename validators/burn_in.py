"""Compares a node's results of active checks with the minimum bandwidths of its pool, as pure functions.

A record is a JSON object with `node_uid`, `time`, `alone` and `together`. `alone` is the outcome of the checks
within the node, and `together` the outcome of the check with another node. An outcome contains the check program's
result, an `error`, or `not_run` with the reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from gpu_platform.catalog.models import Measure
from gpu_platform.planning.burn_in.section import BurnInPoolPlan, LeastBandwidth
from validators.agent.outcome import FAIL, NOT_APPLICABLE, PASS, UNKNOWN
from validators.result import CheckResult, Verdict

VERSION: Final = 1
"""Version of the format in which the check program writes its result."""
RECORD_KEY: Final = "record.json"  # key in the ConfigMap of a node's record
_PREFIX: Final = "burn-in-"
_PRODUCTS: Final = "products"
_OF_ALONE: Final = ("host-device", "device-device", _PRODUCTS, "all-reduce")
_TCP: Final = "Socket"  # NCCL's name for its TCP transport
_EQUAL: Final = "the same matrix products on all GPUs, in every run"
_REMEDIES: Final[Mapping[str, str]] = {
    "host-device": "compare the width and generation of the GPU's PCIe link (checks pcie-width, pcie-generation) "
    "and the CPU's NUMA settings; reboot the node, and replace it if the GPU stays slow",
    "device-device": "see the checks nvlink-count and peer-access, and dmesg (Xid 74); reset all GPUs of the "
    "node, and replace the node if the GPU stays slow",
    _PRODUCTS: "the GPU computes wrong results without an error: drain the node and replace the GPU",
    "all-reduce": "see the checks nvlink-count, fabric-state and peer-access, and the fabric manager's log; "
    "reboot the node, and replace it if it stays slow",
    "all-reduce-nodes": "run gpu-platform burn-in again: the node is then paired with a different node, which "
    "shows which of the two is slow; see the checks fabric-nics, nic-affinity and locked-memory, and the NICs' "
    "counters",
}


def record_name(node: str) -> str:
    """Return the name of the ConfigMap that contains a node's record."""
    return f"burn-in-{node}"


def records_of(config_maps: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the valid records in the ConfigMaps, by node."""
    found: dict[str, Mapping[str, Any]] = {}
    for config_map in config_maps:
        data: Mapping[str, str] = config_map.get("data") or {}
        try:
            record: Any = json.loads(data.get(RECORD_KEY, ""))
        except ValueError:
            continue
        if isinstance(record, dict):
            found[config_map["metadata"]["name"].removeprefix(record_name(""))] = cast("Mapping[str, Any]", record)
    return found


def burn_in_checks(
    record: Mapping[str, Any] | None, pool: BurnInPoolPlan, node_uid: str
) -> tuple[CheckResult, ...]:
    """Return the results of a node's active checks.

    `record` is None if there is no record. A record of an earlier Node object with the same name is ignored.
    """
    if pool.skipped:
        return tuple(_not_applicable(measure, pool.skipped) for measure in _OF_ALONE)
    if record is None or record.get("node_uid") != node_uid:
        return tuple(_not_applicable(measure, "not run yet: use gpu-platform burn-in") for measure in _OF_ALONE)
    when = f" ({record.get('time')})"
    alone: Mapping[str, Any] = record.get("alone") or {}
    found = list(_alone(alone, pool, when))
    if pool.together is None:
        found.append(_not_applicable("all-reduce-nodes", pool.not_together))
    else:
        found.append(_together(record.get("together") or {}, pool, when))
    return tuple(found)


def _alone(result: Mapping[str, Any], pool: BurnInPoolPlan, when: str) -> Iterator[CheckResult]:
    if why := _why_unknown(result):
        for measure in _OF_ALONE:
            yield _unknown(measure, pool.least.get(_measure(measure)), why + when)
        return
    slower = [
        min(pair)
        for pair in zip(_floats(result, "host_to_device"), _floats(result, "device_to_host"), strict=False)
    ]
    yield _each_gpu("host-device", slower, pool, when)
    yield _each_gpu("device-device", _floats(result, "device_to_device"), pool, when)
    yield _products(result, when)
    yield _reduced("all-reduce", result, pool, when, "")


def _each_gpu(measure: Measure, values: Sequence[float], pool: BurnInPoolPlan, when: str) -> CheckResult:
    least = pool.least.get(measure)
    if not values:
        return _not_applicable(measure, "one GPU" if pool.gpus_per_node == 1 else "not measured")
    if len(values) != pool.gpus_per_node:
        return _unknown(measure, least, f"{len(values)} of {pool.gpus_per_node} GPUs measured{when}")
    span = _span(values)
    if least is None:
        return _not_applicable(measure, f"{span}; no minimum bandwidth is published{when}")
    slow = [index for index, value in enumerate(values) if value < least.gb_per_second]
    observed = ", ".join(f"GPU {index}: {values[index]:g} GB/s" for index in slow) or span
    return _compared(measure, least, not slow, observed + when, slow)


def _products(result: Mapping[str, Any], when: str) -> CheckResult:
    wrong: Sequence[int] = result.get("wrong_products") or []
    digests: Sequence[str] = result.get("products") or []
    usual = Counter(digests).most_common(1)[0][0] if digests else ""
    bad = [index for index, digest in enumerate(digests) if digest != usual or wrong[index]]
    observed = ", ".join(
        f"GPU {index}: {wrong[index]} products changed"
        if wrong[index]
        else f"GPU {index}: a different product from the other GPUs"
        for index in bad
    )
    speed = f"equal, {_span(_floats(result, 'tflops'), 'TFLOP/s')}"
    return CheckResult(
        id=_PREFIX + _PRODUCTS,
        device=_gpus(bad),
        verdict=FAIL if bad else PASS,
        expected=_EQUAL,
        observed=(observed or speed) + when,
        source="always: a healthy GPU",
        remediation=_REMEDIES[_PRODUCTS] if bad else "",
    )


def _together(result: Mapping[str, Any], pool: BurnInPoolPlan, when: str) -> CheckResult:
    measure: Measure = "all-reduce-nodes"
    if why := _why_unknown(result):
        return _unknown(measure, pool.least.get(measure), why + when)
    nodes: str = ", ".join(result.get("nodes") or [])
    network = str(result.get("network") or "")
    between = f" between {nodes}"
    where = between + (f" over {network}" if network else "")
    if network == _TCP:
        return CheckResult(
            id=_PREFIX + measure,
            verdict=FAIL,
            expected=f"NCCL over {pool.network}",
            observed=f"NCCL over TCP{between}{when}",
            source=f"stack: network of pool {pool.pool}",
            remediation="NCCL did not load the network's plugin: use an image with the plugin, and see NCCL's log",
        )
    return _reduced(measure, result, pool, when, where)


def _reduced(
    measure: Measure, result: Mapping[str, Any], pool: BurnInPoolPlan, when: str, where: str
) -> CheckResult:
    least = pool.least.get(measure)
    reduced: Mapping[str, Any] | None = result.get("all_reduce")
    if reduced is None:
        return _not_applicable(measure, "one GPU")
    if not reduced.get("right"):
        expected = "the sum of all GPUs"
        remedy = "a GPU or a link changes data: see burn-in-products and the NVLink checks; replace the node"
        return CheckResult(
            id=_PREFIX + measure,
            verdict=FAIL,
            expected=expected,
            observed=f"another sum{where}{when}",
            source="always: healthy links",
            remediation=remedy,
        )
    speed = float(reduced["gb_per_second"])
    observed = f"{speed:g} GB/s{where}{when}"
    if least is None:
        return _not_applicable(measure, f"{observed}; no minimum bandwidth is published")
    return _compared(measure, least, speed >= least.gb_per_second, observed, [])


def _why_unknown(result: Mapping[str, Any]) -> str:
    if not result:
        return "no result"
    if result.get("not_run"):
        return f"not run: {result['not_run']}"
    if result.get("error"):
        return str(result["error"])
    return "" if result.get("version") == VERSION else f"a result of version {result.get('version')!r}"


def _compared(measure: str, least: LeastBandwidth, good: bool, observed: str, slow: Sequence[int]) -> CheckResult:
    return CheckResult(
        id=_PREFIX + measure,
        device=_gpus(slow),
        verdict=PASS if good else FAIL,
        expected=_expected(least),
        observed=observed,
        source=least.source,
        remediation="" if good else _REMEDIES[measure],
    )


def _unknown(measure: str, least: LeastBandwidth | None, observed: str) -> CheckResult:
    return _other(
        measure,
        UNKNOWN,
        _EQUAL if measure == _PRODUCTS else _expected(least) if least is not None else "a measurement",
        observed,
        "run gpu-platform burn-in again when the node is idle; `kubectl get events -n gpu-platform-burn-in` shows "
        "why a pod did not start",
    )


def _not_applicable(measure: str, observed: str) -> CheckResult:
    return _other(measure, NOT_APPLICABLE, "", observed, "")


def _other(measure: str, verdict: Verdict, expected: str, observed: str, remedy: str) -> CheckResult:
    # Active checks run only on request, so a missing measurement must not fail the node.
    return CheckResult(
        id=_PREFIX + measure,
        verdict=verdict,
        expected=expected,
        observed=observed,
        severity="warning",
        remediation=remedy,
    )


def _expected(least: LeastBandwidth) -> str:
    return f"at least {least.gb_per_second:g} GB/s"


def _measure(name: str) -> Any:  # noqa: ANN401 - a Measure or the products, which have no limit
    return name


def _gpus(indices: Sequence[int]) -> str | None:
    if not indices:
        return None
    return f"GPU{'' if len(indices) == 1 else 's'} {', '.join(str(index) for index in indices)}"


def _floats(result: Mapping[str, Any], key: str) -> list[float]:
    values: Sequence[Any] = result.get(key) or []
    return [float(value) for value in values]


def _span(values: Sequence[float], unit: str = "GB/s") -> str:
    if not values:
        return "not measured"
    low, high = min(values), max(values)
    return f"{low:g} {unit}" if low == high else f"{low:g} to {high:g} {unit}"
