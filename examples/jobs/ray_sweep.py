"""The sweep of sweep.py on a Ray cluster: each worker tries one setting after another on its MIG instance.

On the cluster, run `kubectl exec HEAD -- python ray_sweep.py`. Each Ray worker sees the MIG instance of its pod.
"""

from __future__ import annotations

import json
import os

import ray
from sweep import SETTINGS, tried


def main() -> None:
    """Print each result when it is available, then the best result."""
    # Without a cluster, Ray starts on this machine, so that you can try the program.
    ray.init(address=os.environ.get("RAY_ADDRESS"), include_dashboard=False)
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    try_one = ray.remote(num_gpus=gpus, max_retries=2)(tried)
    running, results = [try_one.remote(index) for index in range(len(SETTINGS))], []
    while running:
        (done,), running = ray.wait(running)
        results.append(ray.get(done))
        print(json.dumps(results[-1]), flush=True)
    print("best:", json.dumps(min(results, key=lambda result: result["loss"])), flush=True)


if __name__ == "__main__":
    main()
