"""What Prometheus' own linter says of a page of metrics."""

import subprocess
from pathlib import Path

from ctl import errors

BUILD = Path(__file__).parent / "promlint" / "build.sh"
TIMEOUT_S = 300.0


def findings(page: bytes) -> list[str]:
    """One `metric problem` for each; raises `Unavailable` where the linter cannot be built."""
    built = subprocess.run([BUILD], check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    if built.returncode:
        raise errors.Unavailable(built.stderr.strip() or f"{BUILD}: {built.returncode}")
    linter = built.stdout.strip().splitlines()[-1]
    found = subprocess.run([linter], check=False, input=page, capture_output=True, timeout=60)
    if found.returncode:
        raise ValueError(found.stderr.decode().strip())
    return found.stdout.decode().splitlines()
