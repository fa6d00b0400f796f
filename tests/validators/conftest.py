import os

import pytest


@pytest.fixture(autouse=True)
def _no_real_sysfs(monkeypatch):
    """A simulated GPU's PCI address must not be looked up on this machine."""
    monkeypatch.setenv("GPU_PLATFORM_SYSFS", os.devnull)
