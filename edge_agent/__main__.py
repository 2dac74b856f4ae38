"""`python -m edge_agent` is `windvane-agent`."""

import sys

from edge_agent.cli import main

if __name__ == "__main__":
    sys.exit(main())
