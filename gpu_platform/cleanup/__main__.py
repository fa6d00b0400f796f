"""Entry point: `python cleanup.pyz SETTINGS.json`."""

import sys

from gpu_platform.cleanup.program import main

sys.exit(main(sys.argv[1:]))
