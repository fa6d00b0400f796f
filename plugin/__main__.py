"""The entry point of the Pulumi plugin: serves the public components to programs in any language."""

import sys
from importlib.metadata import version
from pathlib import Path

from pulumi.provider import main

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout that this folder is in
    from components.public.provider import GpuPlatformProvider

    main(GpuPlatformProvider(version("gpu-platform")), sys.argv[1:])
