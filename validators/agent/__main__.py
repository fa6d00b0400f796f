"""Entry point of the node agent: `python agent.pyz` or `python -m validators.agent`."""

import sys

from validators.agent.cli import main

sys.exit(main(sys.argv[1:]))
