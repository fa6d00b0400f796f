"""Entry point of the node agent with metrics: `python agent.pyz serve ... --metrics-port 9401`."""

import sys

from validators.exporter.serve import main

sys.exit(main(sys.argv[1:]))
