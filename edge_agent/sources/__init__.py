"""Where readings come from: one file per source, listed in `catalog`."""
