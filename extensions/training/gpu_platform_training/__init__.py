"""Library for training jobs: launcher, checkpoints, memory, precision, distribution and metrics.

The platform never imports this library. `configure`, `configurations`, `sizing`, `granted`, `exit_codes`,
`stopping` and `metrics` need only the standard library. All other modules need PyTorch.
"""
