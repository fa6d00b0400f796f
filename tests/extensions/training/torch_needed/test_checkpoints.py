from __future__ import annotations

import errno
import io
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gpu_platform_training.checkpoints import Checkpoints, NoGoodCheckpoint, Stager

pytestmark = pytest.mark.usefixtures("alone")


class _Upload(io.FileIO):
    """A fake of a file in a bucket. It can only be written sequentially, from beginning to end."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if self.writable() and (offset, whence) not in ((0, 1), (self.tell(), 0)):
            raise OSError(errno.EINVAL, "out of order write")
        return super().seek(offset, whence)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake bucket: a directory that behaves like a bucket mounted with Mountpoint for S3.

    It refuses renames, out-of-order writes and the removal of directories. Its errors may differ from
    Mountpoint's.
    """

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    opened = Path.open

    def upload(path: Path, mode: str = "r", *rest: object, **options: object) -> object:
        if mode == "wb" and path.is_relative_to(tmp_path):
            return io.BufferedWriter(_Upload(path, "w"))
        return opened(path, mode, *rest, **options)

    for name in ("rename", "replace", "rmdir", "link", "symlink"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(Path, "open", upload)
    return tmp_path


def _save(directory: Path, steps: list[int], keep: int = 5) -> Checkpoints:
    checkpoints = Checkpoints(directory, keep=keep)
    for step in steps:
        checkpoints.save({"weights": torch.full((64,), float(step))}, step)
    checkpoints.wait()
    return checkpoints


def _load(directory: Path) -> tuple[int | None, float]:
    state = {"weights": torch.zeros(64)}
    return Checkpoints(directory).load(state), state["weights"][0].item()


def _without_end(newest: Path) -> None:
    (newest / "complete.json").unlink()


def _half_of_the_end(newest: Path) -> None:
    (newest / "complete.json").write_bytes((newest / "complete.json").read_bytes()[:20])


def _without_a_file(newest: Path) -> None:
    (newest / "__0_0.distcp").unlink()


def _half_a_file(newest: Path) -> None:
    _half_of(newest / "__0_0.distcp")


def _half_of(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def _another_byte(newest: Path) -> None:
    content = bytearray((newest / "__0_0.distcp").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "__0_0.distcp").write_bytes(bytes(content))


_DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "killed before its end": (_without_end, "it was not written completely"),
    "killed at its end": (_half_of_the_end, "complete.json cannot be read"),
    "a file lost": (_without_a_file, "__0_0.distcp is missing"),
    "a file torn": (_half_a_file, "bytes, not"),
    "a byte changed": (_another_byte, "has a different checksum"),
}


def test_the_last_checkpoint_is_found(tmp_path: Path) -> None:
    _save(tmp_path, [10, 20, 100])
    assert _load(tmp_path) == (100, 100.0)


@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_torn_checkpoint_is_skipped_with_a_message(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _save(tmp_path, [10, 20])
    harm, message = _DAMAGES[damage]
    harm(tmp_path / "step-0000000020")
    with caplog.at_level(logging.WARNING, logger="workloads"):
        assert _load(tmp_path) == (10, 10.0)
    assert f"{tmp_path / 'step-0000000020'} skipped" in caplog.text
    assert message in caplog.text


def test_training_does_not_restart_if_all_checkpoints_are_damaged(tmp_path: Path) -> None:
    _save(tmp_path, [10])
    _half_a_file(tmp_path / "step-0000000010")
    with pytest.raises(NoGoodCheckpoint, match="delete them to start again"):
        _load(tmp_path)


def test_training_restarts_if_no_checkpoint_was_ever_complete(tmp_path: Path) -> None:
    _save(tmp_path, [10])
    _without_end(tmp_path / "step-0000000010")
    assert _load(tmp_path)[0] is None


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    _save(tmp_path, [10, 20, 30, 40], keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0000000030", "step-0000000040"]


def test_a_checkpoint_has_the_state_as_it_was_when_it_was_begun(tmp_path: Path) -> None:
    checkpoints, weights = Checkpoints(tmp_path), torch.ones(2**20)
    checkpoints.save({"weights": weights}, 1)
    weights.zero_()  # training continues while the checkpoint is written
    checkpoints.wait()
    state = {"weights": torch.zeros(2**20)}
    assert Checkpoints(tmp_path).load(state) == 1
    assert torch.equal(state["weights"], torch.ones(2**20))


@pytest.mark.parametrize(("cpus", "processes", "files"), [(1, 1, 1), (6, 1, 3), (192, 8, 4), (8, 8, 1)])
def test_half_of_the_cpus_of_a_process_write_at_most_four_files(
    cpus: int, processes: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({str(number): torch.full((2**16,), float(number)) for number in range(9)}, 1)
    checkpoints.wait()
    written = sorted((tmp_path / "step-0000000001").glob("*.distcp"))
    assert len(written) == files
    state = {str(number): torch.zeros(2**16) for number in range(9)}
    assert Checkpoints(tmp_path).load(state) == 1
    assert [tensor[-1].item() for tensor in state.values()] == list(range(9))
    _half_of(written[-1])
    with pytest.raises(NoGoodCheckpoint):
        Checkpoints(tmp_path).load(state)


def test_the_memory_of_a_copy_serves_the_next_one() -> None:
    weights = torch.zeros(64)
    stager = Stager()
    first = stager.stage({"weights": weights})["weights"]
    # async_save also closes the stager at its end.
    # Before PyTorch 2.15, async_save closes even a stager that the caller passed.
    stager.close()
    weights += 1
    second = stager.stage({"weights": weights})["weights"]
    assert second.data_ptr() == first.data_ptr() != weights.data_ptr()
    assert second[0].item() == 1


def test_a_checkpoint_that_was_loaded_is_not_written_again(tmp_path: Path) -> None:
    _save(tmp_path, [10])
    before = (tmp_path / "step-0000000010" / "complete.json").stat().st_mtime_ns
    state = {"weights": torch.zeros(64)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.load(state)
    checkpoints.save(state, 10)
    checkpoints.wait()
    assert (tmp_path / "step-0000000010" / "complete.json").stat().st_mtime_ns == before


def test_checkpoints_are_kept_where_no_file_can_be_renamed_as_in_a_bucket_of_s3(bucket: Path) -> None:
    _save(bucket, [10, 20, 30], keep=2)
    assert _load(bucket) == (30, 30.0)
    with_files = sorted(path.name for path in bucket.iterdir() if any(path.iterdir()))
    assert with_files == ["step-0000000020", "step-0000000030"]
    assert not list(bucket.rglob("*.tmp")) + list(bucket.rglob(".complete.json"))


def test_what_an_upload_left_unfinished_in_a_bucket_is_skipped(bucket: Path) -> None:
    _save(bucket, [10, 20])
    (bucket / "step-0000000020" / "complete.json").unlink()
    assert _load(bucket) == (10, 10.0)
    _save(bucket, [20])
    assert _load(bucket) == (20, 20.0)
