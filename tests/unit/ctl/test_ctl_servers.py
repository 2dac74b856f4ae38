"""Finding the embedded servers, without starting any."""

from pathlib import Path

import pytest

from ctl import children, errors, servers


def test_missing_program_names_the_package() -> None:
    """What is not on this machine is told with the line to run."""
    with pytest.raises(errors.Unavailable, match=r"sudo apt-get install .* some-package"):
        servers.find("no-such-program", "some-package")


def test_kafka_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA_HOME's jars are used when set; without its folder libs that is said."""
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(errors.Unavailable, match="has no folder libs"):
        servers.kafka_libs()
    (tmp_path / "libs").mkdir()

    assert servers.kafka_libs() == tmp_path / "libs"


def test_cached_jars_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is filled is not filled again."""
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    libs = tmp_path / "windvane" / f"kafka-{servers.KAFKA_VERSION}"
    libs.mkdir(parents=True)

    assert servers.kafka_libs() == libs


def test_a_child_that_ends_is_an_error_with_its_log(tmp_path: Path) -> None:
    """Waiting for a child that has ended fails at once, with the end of its log."""
    child = children.Child("talker", ["sh", "-c", "echo goodbye; exit 3"], tmp_path)
    child.start()

    with pytest.raises(errors.CtlError, match=r"(?s)code 3.*goodbye"):
        children.wait_until("talker", lambda: False, timeout_s=5, children=[child])


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Stopping a child ends what it has started too."""
    pid_file = tmp_path / "pid"
    child = children.Child(
        "parent", ["sh", "-c", f"sleep 60 & echo $! > {pid_file}; wait"], tmp_path
    )
    child.start()
    children.wait_until(
        "parent",
        lambda: pid_file.exists() and bool(pid_file.read_text()),
        timeout_s=5,
        children=[child],
    )
    child.stop()

    stat = Path(f"/proc/{pid_file.read_text().strip()}/stat")

    def is_gone() -> bool:
        try:
            return stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    children.wait_until("grandchild", is_gone, timeout_s=5, children=[])
