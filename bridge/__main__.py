"""`python -m bridge`."""

import sys

from bridge import cli

sys.exit(cli.main())
