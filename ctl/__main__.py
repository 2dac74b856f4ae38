"""`python -m ctl` is `windvane`."""

import sys

from ctl import cli

sys.exit(cli.main())
