"""The demo, as a newcomer runs it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def processes_in(folder: Path) -> list[str]:
    """Command lines of all processes that mention the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found


def start(tmp_path: Path, *args: str) -> subprocess.Popen:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-m", "ctl", "demo", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        text=True,
    )


@pytest.mark.parametrize("options", [(), ("--nvml",)], ids=["simulated", "nvml"])
def test_the_story_comes_true(
    tmp_path: Path, servers_or_skip, nvml_library, options: tuple[str, ...]
) -> None:
    """`windvane demo --once` tells the story with times, exits 0, and leaves nothing behind; so
    it does when two of its nodes are read through NVIDIA's binding.
    """
    demo = start(tmp_path, "--once", *options)
    output, _ = demo.communicate(timeout=280)
    print(output)

    assert demo.returncode == 0, output
    assert "the story came true" in output
    assert "missing 0" in output
    assert list(tmp_path.iterdir()) == []
    assert processes_in(tmp_path) == []


@pytest.mark.parametrize("after_s", [1.0, 8.0])
def test_ctrl_c_leaves_nothing(tmp_path: Path, servers_or_skip, after_s: float) -> None:
    """Ctrl-C, also in the middle of starting, ends every program and removes the folder."""
    demo = start(tmp_path)
    time.sleep(after_s)
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=60)

    assert demo.returncode == 0, output
    assert processes_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
