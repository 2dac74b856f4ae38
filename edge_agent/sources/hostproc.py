"""Whether a `/proc` shows the host's processes.

Its process 2 tells: it is the kernel's `kthreadd`, a kernel thread by its flags, in the first
pid namespace and in no other. Anybody may read that, also in a `/proc` that is mounted
elsewhere. A name alone would prove nothing, any process can take it.
"""

from pathlib import Path

from edge_agent.core import procstat


def is_hosts(proc: str | Path) -> bool:
    """Whether pids of the host mean something in this `/proc`."""
    try:
        said = Path(proc, "2/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    second = procstat.parse(said)
    return second is not None and second.is_kernel_thread
