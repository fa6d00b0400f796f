"""The same sweep on a Ray cluster: each worker tries one setting after another on its MIG instance.

On the cluster: `kubectl exec HEAD -- python ray_sweep.py`. Each of Ray's workers sees the instance of its pod.
"""

from __future__ import annotations

import json
import os

import ray
from sweep import SETTINGS, tried


def main() -> None:
    """Print each result when it is there, then the best one."""
    # Without a cluster, on this machine: to try it out.
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
