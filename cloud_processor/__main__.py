"""`python -m cloud_processor` is `windvane-processor`."""

import sys

from cloud_processor.cli import main

sys.exit(main())
