"""Library for training jobs: launcher, checkpoints, memory, precision, distribution, metrics.

The platform never imports it. `configure`, `configurations`, `sizing`, `granted`, `exit_codes`, `stopping` and
`metrics` need the standard library alone, everything else PyTorch.
"""
