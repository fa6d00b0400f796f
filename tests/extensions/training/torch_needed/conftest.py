from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from gpu_platform_training.parallel import ProcessRank

# On a busy machine, several threads wait for each other for minutes when they compute with small matrices.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessRank]:
    """Make this process the only process of a job."""
    store = tmp_path_factory.mktemp("store") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield ProcessRank(rank=0, local_rank=0, processes=1, processes_on_node=1, device=torch.device("cpu"))
    dist.destroy_process_group()
