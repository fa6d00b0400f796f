"""Measure the GPUs of a node, or the network between nodes, and write the result as the termination message.

torchrun starts one process for each GPU. If BURN_IN_PART is `node`, the processes copy between host and GPU, one
after the other. Then the first process copies from GPU to GPU. Then all processes multiply the same matrices at
the same time, for BURN_IN_MATRIX_SECONDS, and compare the products bit by bit. Last, they sum a tensor with
all-reduce. If BURN_IN_PART is `nodes`, the processes only sum a tensor over all nodes.

Bandwidths are in GB/s (10^9 bytes). The bus bandwidth is message / time x 2(n-1)/n, as in nccl-tests. With
BURN_IN_DEVICE=cpu, the program runs without GPUs and NCCL, so that it can be tried on any machine.
"""

import contextlib
import glob
import hashlib
import json
import os
import re
import subprocess
import time

import torch
import torch.distributed as dist

VERSION = 1
MIB = 2**20
COPY_BYTES = 256 * MIB
COPIES = 20
MOST_REDUCED_BYTES = 8192 * MIB
REDUCTIONS = 10
SIDE = 8192
CUDA = os.environ.get("BURN_IN_DEVICE", "cuda") == "cuda"
MESSAGE = os.environ.get("BURN_IN_MESSAGE", "/dev/termination-log")
NCCL_LOG = "/tmp/burn-in-nccl.%h.%p"


def main():
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    os.environ.setdefault("NCCL_DEBUG_FILE", NCCL_LOG)
    if CUDA:
        torch.cuda.set_device(local)
        stay_near(local)
    device = torch.device("cuda", local) if CUDA else torch.device("cpu")
    # With `device_id`, barriers do not have to guess which GPU to use.
    dist.init_process_group("nccl" if CUDA else "gloo", device_id=device if CUDA else None)
    result = {"version": VERSION, "gpus": dist.get_world_size()}
    if os.environ.get("BURN_IN_PART", "node") == "node":
        result.update(measure_node(local, device, float(os.environ.get("BURN_IN_MATRIX_SECONDS", "60"))))
    if dist.get_world_size() > 1:
        result["all_reduce"] = all_reduce(device)
    result["network"] = used_network()
    if rank == 0:
        write(result)
    dist.barrier()
    dist.destroy_process_group()


def stay_near(local):
    """Run on the CPUs of the GPU's NUMA node, so that pinned memory is also allocated there."""
    query = ["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader", f"--id={local}"]
    with contextlib.suppress(OSError, ValueError, subprocess.CalledProcessError):
        bus = subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip().lower()[-12:]
        with open(f"/sys/bus/pci/devices/{bus}/local_cpulist") as file:
            near = numbers(file.read())
        both = near & os.sched_getaffinity(0)
        if both:
            os.sched_setaffinity(0, both)


def numbers(text):
    """Return the numbers in a list such as 0-3,8."""
    found = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def measure_node(local, device, seconds):
    world = dist.get_world_size()
    mine = [0.0, 0.0]
    for turn in range(world):
        if turn == local:
            mine = host_copies(device)
        dist.barrier()
    peers = device_copies(world) if local == 0 and CUDA and world > 1 else []
    dist.barrier()
    wrong, digest, tflops = products(device, seconds)
    gathered = [None] * world
    dist.all_gather_object(gathered, (mine, wrong, digest, tflops))
    return {
        "host_to_device": [round(copies[0], 1) for copies, *_ in gathered],
        "device_to_host": [round(copies[1], 1) for copies, *_ in gathered],
        "device_to_device": [round(one, 1) for one in peers],
        "wrong_products": [wrong for _, wrong, _, _ in gathered],
        "products": [digest for _, _, digest, _ in gathered],
        "tflops": [round(tflops, 1) for *_, tflops in gathered],
    }


def host_copies(device):
    host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=CUDA)
    on_device = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)
    return [bandwidth(on_device, host), bandwidth(host, on_device)]


def device_copies(world):
    """Return the bandwidth at which each GPU copies from the next GPU."""
    tensors = [torch.empty(COPY_BYTES, dtype=torch.uint8, device=f"cuda:{index}") for index in range(world)]
    return [bandwidth(tensors[index], tensors[(index + 1) % world]) for index in range(world)]


def bandwidth(target, source):
    target.copy_(source, non_blocking=True)
    wait(target, source)
    begin = time.perf_counter()
    for _ in range(COPIES):
        target.copy_(source, non_blocking=True)
    wait(target, source)
    return COPIES * COPY_BYTES / (time.perf_counter() - begin) / 1e9


def wait(*tensors):
    for tensor in tensors:
        if tensor.is_cuda:
            torch.cuda.synchronize(tensor.device)


def products(device, seconds):
    """Return the number of products that differ from the first product, the digest of the first product, and the
    throughput in TFLOP/s.
    """
    side = SIDE if CUDA else 256
    generator = torch.Generator().manual_seed(7)  # all GPUs multiply the same matrices
    one, two = (torch.randn(side, side, generator=generator).to(device, torch.bfloat16) for _ in range(2))
    first = one @ two
    digest = hashlib.sha256(first.cpu().view(torch.int16).numpy().tobytes()).hexdigest()[:16]
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    dist.barrier()
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(20):
            wrong += (one @ two != first).any()
            count += 1
        wait(wrong)
    return int(wrong), digest, count * 2 * side**3 / (time.perf_counter() - begin) / 1e12


def all_reduce(device):
    world = dist.get_world_size()
    free = torch.cuda.mem_get_info(device)[0] if CUDA else 64 * MIB
    sizes = [None] * world
    dist.all_gather_object(sizes, min(MOST_REDUCED_BYTES, free // 4))
    size = min(sizes) // (4 * MIB) * (4 * MIB)
    tensor = torch.ones(size // 4, device=device)
    dist.all_reduce(tensor)
    right = bool((tensor == world).all())
    tensor.zero_()
    wait(tensor)
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(REDUCTIONS):
        dist.all_reduce(tensor)
    wait(tensor)
    took = (time.perf_counter() - begin) / REDUCTIONS
    rights = [None] * world
    dist.all_gather_object(rights, right)
    return {
        "gb_per_second": round(size / took * 2 * (world - 1) / world / 1e9, 1),
        "bytes": size,
        "right": all(rights),
    }


def used_network():
    """Return the network that NCCL names in its log, or an empty string."""
    for name in sorted(glob.glob(re.sub("%[hp]", "*", NCCL_LOG))):
        with open(name, errors="replace") as file:
            found = re.search(r"NCCL INFO Using network (.+)", file.read())
        if found:
            return found[1].strip()
    return ""


def write(result):
    with open(MESSAGE, "w") as file:
        json.dump(result, file, separators=(",", ":"))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        # Keep the error of the first process that fails.
        # Other processes fail only because the first process has exited.
        if not os.path.exists(MESSAGE) or not os.path.getsize(MESSAGE):
            write({"version": VERSION, "error": f"{type(error).__name__}: {error}"[:1500]})
        raise
