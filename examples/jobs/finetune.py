"""Fine-tune a language model on several GPUs.

`python -m gpu_platform_training.train --parallel ddp|fsdp finetune:main [STEPS]`

The launcher distributes the model, saves and resumes checkpoints, and reports progress. This program contains the
model, the data and the training step.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from miniature import Block, Model, answer, base_model, batch, loss_of, question, share_of_right_answers
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from gpu_platform_training.training import Training

BATCH = 64


def main(training: Training) -> None:
    """Train, then write the weights of the whole model to the folder of the checkpoints."""
    total = int(training.arguments[0]) if training.arguments else 400
    model = training.prepare(base_model(), blocks=[Block])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    place = training.place
    part = BATCH // place.processes
    for step in training.steps(total, model=model, optimizer=optimizer):
        texts = batch(lambda number: question(number) + answer(number), step, BATCH)
        own = texts[place.rank * part : (place.rank + 1) * part].to(place.device)
        with training.forward():
            loss = loss_of(model, own)
        training.backward(loss)
        training.update(optimizer, most_norm=1.0)
        training.report(loss=loss, tokens=texts.numel())
    save(training, model)


def save(training: Training, model: torch.nn.Module) -> None:
    """Write the weights to one file that serve.py reads. All processes must call it."""
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=whole)
    directory = training.options.checkpoints or training.granted.checkpoints
    if training.place.rank == 0:
        trained = Model()
        trained.load_state_dict(weights)
        print(f"right answers: {share_of_right_answers(trained):.0%}", flush=True)
        if directory is not None:
            torch.save(weights, directory / "model.pt")
    dist.barrier()
