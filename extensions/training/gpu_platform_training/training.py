"""The object that a training function receives. It prepares the model and runs steps with checkpoints.

def main(training):
    model = training.prepare(Model(), blocks=[Block])
    optimizer = torch.optim.AdamW(model.parameters())
    for step in training.steps(10_000, model=model, optimizer=optimizer):
        with training.forward():
            loss = model(batch_of(step, training.place))
        training.backward(loss)
        training.update(optimizer)
        training.report(loss=loss, tokens=batch_tokens)
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from gpu_platform_training import exit_codes, speed
from gpu_platform_training.checkpoints import Checkpoints
from gpu_platform_training.granted import Granted, WrongSetting
from gpu_platform_training.memory import Allocator, CudaAllocator, GpuMemory
from gpu_platform_training.metrics import Metrics, flops_utilisation
from gpu_platform_training.options import Every, Options
from gpu_platform_training.parallel import ProcessRank, chosen_parallel, distributed
from gpu_platform_training.profiling import Profiler, Window
from gpu_platform_training.stopping import StopNotice

# Floating-point operations of a transformer per parameter and token, for the forward and backward pass. Source:
# Kaplan et al., Scaling Laws for Neural Language Models (2020), section 2.1.
_FLOPS_PER_PARAMETER_AND_TOKEN: Final = 6

log = logging.getLogger("workloads")


class Training:
    """Represents one process of a training job. The program's training function receives this object."""

    def __init__(
        self,
        options: Options,
        granted: Granted,
        place: ProcessRank,
        notice: StopNotice,
        *,
        allocator: Allocator | None = None,
    ) -> None:
        self.options = options
        self.granted = granted
        self.place = place
        self.arguments = options.arguments
        self.metrics = Metrics()
        self.precision = speed.chosen_precision(cast("Any", options.precision), place.device)
        self.memory = _memory(allocator, place, granted)
        self.step = 0
        """The current step, or the first step to run if none has started."""
        self.attempt = _common(uuid.uuid4().hex)
        """ID of this attempt, which is the same in all processes."""
        self._notice = notice
        self._agreement = _Agreement()
        directory = options.checkpoints or granted.checkpoints
        self._checkpoints = None if directory is None else Checkpoints(directory, keep=options.keep)
        self._scaler = torch.amp.GradScaler(place.device.type, enabled=self.precision == "float16")
        self._parameters = 0
        self._model: nn.Module | None = None
        self._optimizer: torch.optim.Optimizer | None = None
        self._others: dict[str, Any] = {}
        self._loss: torch.Tensor | None = None
        self._report = _Interval(options.report_every)
        self._save = _Interval(options.checkpoint_every)
        self._tokens = self._flops = 0.0
        self._warned = False

    # -- the model ------------------------------------------------------------------------------------------

    def prepare(self, model: nn.Module, *, blocks: Sequence[type[nn.Module]] = ()) -> nn.Module:
        """Move a model to the GPU, distribute and compile it. `blocks` are the types of the model's layers."""
        self._parameters = sum(parameter.numel() for parameter in model.parameters())
        limit = None if self.memory is None else self.memory.info().limit
        parallel = chosen_parallel(cast("Any", self.options.parallel), model, self.place, limit)
        if parallel == "fsdp" and self.precision == "float16":
            raise WrongSetting(
                "--precision float16 scales the loss, which FSDP2 does not support: use bfloat16 or ddp"
            )
        model.to(self.place.device)
        recomputed = speed.recompute(model, blocks) if self.options.recompute else 0
        if self.options.compile:
            speed.compiled(model)
        self._log_first(
            "%s parameters, %s, %s, %s, %d of %d blocks recomputed",
            f"{self._parameters:,}",
            self.precision,
            {"none": "one process", "ddp": "DDP", "fsdp": "FSDP2"}[parallel],
            "compiled" if self.options.compile else "not compiled",
            recomputed,
            sum(isinstance(module, tuple(blocks)) for module in model.modules()),
        )
        return distributed(model, parallel, self.place, self.precision, blocks)

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Run the forward pass in the precision that the options select."""
        with speed.autocast(self.precision, self.place.device):
            yield

    def backward(self, loss: torch.Tensor) -> None:
        """Compute the gradients of the loss."""
        self._scaler.scale(loss).backward()

    def update(self, optimizer: torch.optim.Optimizer, *, most_norm: float | None = None) -> None:
        """Update the parameters from their gradients and clear the gradients.

        Gradients are clipped to `most_norm`.
        """
        if most_norm is not None:
            self._scaler.unscale_(optimizer)
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            nn.utils.clip_grad_norm_(parameters, most_norm)
        self._scaler.step(optimizer)
        self._scaler.update()
        optimizer.zero_grad(set_to_none=True)

    def report(self, *, loss: torch.Tensor, tokens: float, flops: float | None = None) -> None:
        """Record a step. `tokens` (or samples) and `flops` are totals over all processes.

        If `flops` is None, it is calculated for a transformer.
        """
        self._tokens += tokens
        self._flops += tokens * self._parameters * _FLOPS_PER_PARAMETER_AND_TOKEN if flops is None else flops
        self._loss = loss.detach()  # the loss is read only at the interval, because reading it waits for the GPU

    # -- steps ----------------------------------------------------------------------------------------------

    def steps(
        self,
        total: int,
        *,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        **others: Any,  # noqa: ANN401
    ) -> Iterator[int]:
        """Yield the numbers of the remaining steps.

        The steps start after the last good checkpoint, and checkpoints are saved at the interval. If the pod is
        stopped, the process saves a checkpoint and ends with the exit code INTERRUPTED. `others` are further
        objects with `state_dict` and `load_state_dict`, such as a learning-rate scheduler or a data loader. The
        random numbers in a step depend only on the seed, the step and the process, so that resumed training draws
        the same numbers.
        """
        self._model, self._optimizer, self._others = model, optimizer, others
        if self._scaler.is_enabled():
            self._others = {**others, "scaler": self._scaler}
        first = self._resume()
        self._report.begin(first)
        self._save.begin(first)
        with self._profiler() as profiler:
            for self.step in range(first, total):
                stop, late = self._agreement.reached(self._notice.given, self._save.late)
                if stop:
                    self._stop()
                if late or self._save.passed(self.step):
                    self._write()
                torch.manual_seed(_seed(self.options.seed, self.step, self.place.rank))
                profiler.before(self.step)
                yield self.step
                profiler.after(self.step)
                self._after(self.step + 1)
        self.step = total
        self._write()
        self._wait_for_checkpoint()
        self._agreement.end()

    @property
    def saved(self) -> bool:
        """Whether this attempt has completed a checkpoint."""
        return self._checkpoints is not None and self._checkpoints.last is not None

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Log a report on GPU memory after an out-of-memory error."""
        if self.memory is None:
            yield
            return
        try:
            yield
        except torch.OutOfMemoryError as error:
            self.memory.explain(error, self._model, self._optimizer)
            raise

    def _after(self, done: int) -> None:
        if self._report.late or self._report.passed(done):
            self._publish(done)
        if self._checkpoints is not None:
            self._checkpoints.poll()
            self._publish_checkpoint()
            self._warn_of_short_grace()

    def _publish(self, done: int) -> None:
        steps, seconds = self._report.restart(done)
        values = self.metrics.values
        values |= {"step": done, "step_seconds": seconds / steps, "tokens_per_second": self._tokens / seconds}
        if self._loss is not None:
            values["loss"] = self._loss.item()
        if self.granted.peak_tflops is not None:
            peak = self.granted.peak_tflops
            values["mfu_ratio"] = flops_utilisation(self._flops / seconds, self.place.processes, peak)
        if self.memory is not None:
            values["memory_allocated_bytes"] = self.memory.take_most()
            values["memory_limit_bytes"] = self.memory.info().limit
        self._tokens = self._flops = 0.0
        self._log_first("%s", self.metrics.line())

    # -- checkpoints ----------------------------------------------------------------------------------------

    def _resume(self) -> int:
        if self._checkpoints is None:
            self._log_first("no directory for checkpoints: an interrupted run starts from the beginning")
            return 0
        state = self._state()
        step = self._checkpoints.load(state)
        if step is None:
            self._log_first("no checkpoint: training starts at step 0")
            return 0
        set_state_dict(
            self._model, self._optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        for name, one in self._others.items():
            one.load_state_dict(state[name])
        self._log_first("resumed at step %d with %d processes", step, self.place.processes)
        return step

    def _state(self) -> dict[str, Any]:
        of_model, of_optimizer = get_state_dict(self._model, self._optimizer)
        others = {name: one.state_dict() for name, one in self._others.items()}
        return {"model": of_model, "optimizer": of_optimizer, **others}

    def _write(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.save(self._state(), self.step)
            self._save.restart(self.step)

    def _wait_for_checkpoint(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.wait()
            self._publish_checkpoint()

    def _publish_checkpoint(self) -> None:
        last = None if self._checkpoints is None else self._checkpoints.last
        if last is not None:
            self.metrics.values |= {
                "checkpoint_step": last.step,
                "checkpoint_seconds": last.seconds,
                "checkpoint_blocked_seconds": last.blocked_seconds,
            }

    def _stop(self) -> None:
        """Save a checkpoint and end the process, after all processes have agreed to stop before the same step."""
        self._write()
        self._wait_for_checkpoint()
        saved = "nothing is saved" if self._checkpoints is None else f"saved at step {self.step}"
        grace = self.granted.grace_seconds
        of = "" if grace is None else f" of {grace} s grace"
        self._log_first("stopped from outside: %s, %.1f s%s used", saved, self._notice.seconds_ago, of)
        raise SystemExit(exit_codes.INTERRUPTED)

    def _warn_of_short_grace(self) -> None:
        """Warn once if the grace period is too short for the current step, the next step and a checkpoint."""
        last = None if self._checkpoints is None else self._checkpoints.last
        grace, step = self.granted.grace_seconds, self.metrics.values.get("step_seconds")
        if self._warned or last is None or grace is None or step is None:
            return
        if 2 * step + last.seconds > grace:
            self._warned = True
            self._log_first(
                "grace is %d s, but a checkpoint (%.1f s) and two steps (%.1f s) need more: raise the "
                "job's `grace`, or save more often if its nodes do not allow a longer grace period",
                grace,
                last.seconds,
                2 * step,
            )

    # -- others ---------------------------------------------------------------------------------------------

    def _profiler(self) -> Profiler:
        window = self.options.profile
        name = f"steps-{window[0]}-to-{window[1]}-process-{self.place.rank}.json" if window else ""
        return Profiler(Window(*window) if window else None, self.options.profile_to / name)

    def _log_first(self, text: str, *values: object) -> None:
        if self.place.rank == 0:
            log.info(text, *values)


def _memory(allocator: Allocator | None, place: ProcessRank, granted: Granted) -> GpuMemory | None:
    if allocator is None and place.device.type != "cuda":
        return None
    share = granted.gpu_memory_mib if granted.shares_memory else None
    return GpuMemory(allocator or CudaAllocator(place.device), share_mib=share, sharing=granted.sharing)


def _common(text: str) -> str:
    """Broadcast the first process's string, and return it in every process."""
    texts: list[Any] = [text]
    dist.broadcast_object_list(texts, src=0, device=torch.device("cpu"))
    return texts[0]


def _seed(seed: int, step: int, rank: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{step}/{rank}".encode()).digest()[:8], "big")


class _Agreement:
    """Lets all processes agree on whether to stop or to save a checkpoint before a step.

    The processes exchange their values for a step during the previous step, so that no step waits for a slow
    network.
    """

    def __init__(self) -> None:
        self._group = dist.new_group(backend="gloo")
        self._seen = torch.zeros(2, dtype=torch.int32)
        self._asked: dist.Work | None = None

    def reached(self, stop: bool, late: bool) -> tuple[bool, bool]:
        """Start exchanging this step's values, and return the result of the previous exchange."""
        before = self.end()
        self._seen = torch.tensor([stop, late], dtype=torch.int32)
        self._asked = dist.all_reduce(self._seen, op=dist.ReduceOp.MAX, group=self._group, async_op=True)
        return before

    def end(self) -> tuple[bool, bool]:
        """Return the result of the last exchange."""
        if self._asked is None:
            return False, False
        self._asked.wait()
        self._asked = None
        stop, late = self._seen.tolist()
        return bool(stop), bool(late)


class _Interval:
    """Checks whether an interval has passed, by number of steps or by time."""

    def __init__(self, every: Every) -> None:
        self._every = every
        self.begin(0)

    def begin(self, step: int) -> None:
        """Start the interval at `step` and the current time."""
        self._step, self._since = step, time.monotonic()

    def passed(self, step: int) -> bool:
        """Return whether the interval's number of steps has passed."""
        return self._every.steps is not None and step - self._step >= self._every.steps

    @property
    def late(self) -> bool:
        """Whether the interval's time has passed. The processes may disagree about this."""
        return self._every.seconds is not None and time.monotonic() - self._since >= self._every.seconds

    def restart(self, step: int) -> tuple[int, float]:
        """Start a new interval. Return the steps and seconds of the last interval."""
        passed = max(1, step - self._step), max(time.monotonic() - self._since, 1e-9)
        self.begin(step)
        return passed
