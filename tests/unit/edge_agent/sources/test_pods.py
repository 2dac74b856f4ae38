"""From a process of the host to its pod, through a `/proc` that is built of files."""

import os
import shutil
import stat

import pytest

from edge_agent import config
from edge_agent.core import reading
from edge_agent.sources import pods

UID = "5a8e4f4c-1b1f-4c38-9f4e-0a4dbb1c9e01"
OTHER_UID = "fecd2321-17b5-49b9-9f75-8c5be777fbfb"
ID = "0f" * 32
IN_POD = f"0::/kubepods/burstable/pod{UID}/{ID}\n"
IN_OTHER_POD = f"0::/kubepods/pod{OTHER_UID}/{ID}\n"
KERNEL_THREAD = 0x200000


class Proc:
    """A `/proc` with the processes that a test puts into it."""

    def __init__(self, root):
        self.root = root
        self.host = config.Host(proc=str(root))
        self.process(1, name="systemd", cgroup="0::/init.scope\n")
        self.process(2, name="kthreadd", cgroup="0::/\n", flags=KERNEL_THREAD)

    def process(self, pid, *, name="python", cgroup=IN_POD, start=100, state="S", flags=0):
        """A process; one with this pid that was there before is gone."""
        folder = self.root / str(pid)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        fields = f"{state} 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0"
        (folder / "stat").write_text(f"{pid} ({name}) {fields}\n")
        (folder / "cgroup").write_text(cgroup)
        (folder / "cmdline").write_bytes(b"/usr/bin/python3\0serve\0--token=s3cret\0")
        return folder

    def end(self, pid):
        """The process is gone."""
        shutil.rmtree(self.root / str(pid))


@pytest.fixture
def proc(tmp_path):
    """A host's `/proc`."""
    return Proc(tmp_path / "proc")


def owned(owners, *pids):
    """What is told of these pids, each as a short tuple."""
    found = owners([reading.RawProcess(pid=pid) for pid in pids])
    return [(one.pid, one.owner, one.pod_uid, one.container_id, one.name) for one in found]


def test_a_process_is_told_with_pod_container_and_name(proc):
    """From its cgroup and its `comm`."""
    proc.process(4242)

    assert owned(pods.Pods(proc.host), 4242) == [(4242, "pod", UID, ID, "python")]


def test_a_process_in_no_pod_is_the_hosts(proc):
    """A display server, or a job started by hand."""
    proc.process(77, name="Xorg", cgroup="0::/system.slice/gdm.service\n")

    assert owned(pods.Pods(proc.host), 77) == [(77, "host", None, None, "Xorg")]


def test_each_process_keeps_its_row_and_its_values(proc):
    """With time-slicing and MIG many rows may have one pod, and one pid many rows."""
    proc.process(10)
    proc.process(11, cgroup=IN_OTHER_POD)
    rows = [
        reading.RawProcess(pid=10, mig_uuid="MIG-1", memory_used_bytes=1, kind="compute"),
        reading.RawProcess(pid=10, mig_uuid="MIG-2", memory_used_bytes=2),
        reading.RawProcess(pid=11, mig_uuid="MIG-2", sm_utilization_percent=reading.Failed("x")),
    ]

    found = pods.Pods(proc.host)(rows)

    assert [one.pod_uid for one in found] == [UID, UID, OTHER_UID]
    assert [one.mig_uuid for one in found] == ["MIG-1", "MIG-2", "MIG-2"]
    assert [one.memory_used_bytes for one in found] == [1, 2, None]
    assert found[0].kind == "compute"
    assert found[2].sm_utilization_percent == reading.Failed("x")


def test_a_process_that_ended_before_it_was_looked_up_is_gone(proc):
    """BR-35: the others are told, and what was known of it is kept."""
    proc.process(100)

    found = pods.Pods(proc.host)(
        [reading.RawProcess(pid=100), reading.RawProcess(pid=101, memory_used_bytes=5)]
    )

    assert [(one.pid, one.owner) for one in found] == [(100, "pod"), (101, "gone")]
    assert found[1].memory_used_bytes == 5


def test_a_process_that_ended_after_it_was_looked_up_is_gone(proc):
    """BR-35: its pid is anybody's from then on."""
    proc.process(100)
    owners = pods.Pods(proc.host)
    owned(owners, 100)
    proc.end(100)

    assert owned(owners, 100) == [(100, "gone", None, None, None)]


@pytest.mark.parametrize("missing", ["stat", "cgroup"])
def test_a_process_that_ends_between_two_files_is_gone(proc, missing):
    """BR-35: at whatever moment it ends."""
    (proc.process(100) / missing).unlink()

    assert [row[:4] for row in owned(pods.Pods(proc.host), 100)] == [(100, "gone", None, None)]


def test_a_zombie_is_gone_and_not_the_hosts(proc):
    """Cgroup v1 shows every zombie at the root, where processes of the host are."""
    proc.process(100, state="Z", cgroup="4:memory:/\n0::/\n")

    assert owned(pods.Pods(proc.host), 100) == [(100, "gone", None, None, "python")]


def test_a_zombie_that_was_looked_up_keeps_its_pod(proc):
    """It is the same process, by pid and start time, and the driver still frees its memory."""
    proc.process(100)
    owners = pods.Pods(proc.host)
    owned(owners, 100)
    proc.process(100, state="Z", cgroup="4:memory:/\n")

    assert owned(owners, 100) == [(100, "pod", UID, ID, "python")]


def test_a_pid_that_was_given_again_is_looked_up_anew(proc):
    """Remembered is the process, which is pid and start time, not the pid."""
    proc.process(100, start=100)
    owners = pods.Pods(proc.host)
    owned(owners, 100)
    proc.process(100, start=200, cgroup=IN_OTHER_POD, name="other")

    assert owned(owners, 100) == [(100, "pod", OTHER_UID, ID, "other")]


def test_a_home_is_looked_up_once(proc):
    """A process does not change its pod; its cgroup is not read again."""
    folder = proc.process(100)
    owners = pods.Pods(proc.host)
    owned(owners, 100)
    (folder / "cgroup").write_text(IN_OTHER_POD)

    assert owned(owners, 100) == [(100, "pod", UID, ID, "python")]


def test_memory_is_bounded_and_forgets_who_was_not_asked_for(proc):
    """BR-27: a year of short jobs leaves no more behind than the bound."""
    owners = pods.Pods(proc.host, homes_max=3)
    proc.process(100)
    for pid in range(200, 300):
        proc.process(pid, cgroup=IN_OTHER_POD)
        owned(owners, 100, pid)
    (proc.root / "100/cgroup").unlink()

    assert len(owners._homes) == 3
    assert owned(owners, 100) == [(100, "pod", UID, ID, "python")]


@pytest.mark.parametrize("blind", ["no process 2", "a process that is named so", "garbage", "dir"])
def test_pids_of_the_host_mean_nothing_in_another_pid_namespace(proc, blind):
    """BR-34: pid 12 of the host is not our container's pid 12, whoever that is. All are
    `unknown`, with what the driver told of them.
    """
    proc.process(12)
    proc.end(2)
    if blind == "a process that is named so":
        proc.process(2, name="kthreadd")
    elif blind == "garbage":
        (proc.root / "2").mkdir()
        (proc.root / "2/stat").write_bytes(b"\xff\x00 (")
    elif blind == "dir":
        (proc.root / "2/stat").mkdir(parents=True)
    rows = (reading.RawProcess(pid=12, memory_used_bytes=7), reading.RawProcess(pid=13))

    assert pods.Pods(proc.host)(rows) == rows


def test_a_proc_that_is_mounted_later_is_seen(proc):
    """The look at process 2 is repeated until it succeeds."""
    proc.process(12)
    proc.end(2)
    owners = pods.Pods(proc.host)
    assert [row[1] for row in owned(owners, 12)] == ["unknown"]
    proc.process(2, name="kthreadd", flags=KERNEL_THREAD)

    assert [row[1] for row in owned(owners, 12)] == ["pod"]


def test_from_inside_a_cgroup_namespace_our_own_pod_is_never_told(proc):
    """BR-34: what shares our cgroups may be our own pod; other pods and the host are clear."""
    proc.process(1, cgroup="0::/../../../../init.scope\n")
    proc.process(10, cgroup=f"0::/../cri-containerd-{ID}.scope\n")
    proc.process(11, cgroup="0::/\n")
    proc.process(12, cgroup=f"0::/../../pod{OTHER_UID}/{ID}\n")
    proc.process(13, cgroup="0::/../../../../system.slice/sshd.service\n")

    assert [row[1:4] for row in owned(pods.Pods(proc.host), 10, 11, 12, 13)] == [
        ("unknown", None, ID),
        ("unknown", None, None),
        ("pod", OTHER_UID, ID),
        ("host", None, None),
    ]


def test_what_is_unknown_is_looked_up_again(proc):
    """It costs little, and the reason may pass."""
    proc.process(1, cgroup="")
    proc.process(10, cgroup="0::/user.slice\n")
    owners = pods.Pods(proc.host)
    assert [row[1] for row in owned(owners, 10)] == ["unknown"]
    proc.process(1, cgroup="0::/init.scope\n")

    assert [row[1] for row in owned(owners, 10)] == ["host"]


@pytest.mark.parametrize("refused", ["100", "stat", "cgroup"])
def test_what_may_not_be_read_leaves_what_is_known(proc, refused, monkeypatch):
    """BR-35: no permission is not the end of a process, nor a pod."""
    proc.process(100)
    opened = os.open

    def refuse(path, *args, **more):
        is_of_100 = more.get("dir_fd") is not None or os.path.basename(path) == "100"  # noqa: PTH119
        if is_of_100 and os.path.basename(path) == refused:  # noqa: PTH119
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **more)

    owners = pods.Pods(proc.host)
    monkeypatch.setattr(pods.os, "open", refuse)
    name = "python" if refused == "cgroup" else None

    assert owned(owners, 100) == [(100, "unknown", None, None, name)]


@pytest.mark.parametrize(
    "junk", [b"", b"\xff\xfe\x00", b"100 (a", b"0::/kubepods/pod", b"a" * 10**6]
)
@pytest.mark.parametrize("file", ["stat", "cgroup"])
def test_garbage_in_a_file_is_unknown(proc, file, junk):
    """Nothing is made up, and nothing breaks."""
    (proc.process(100) / file).write_bytes(junk)

    assert [row[1:4] for row in owned(pods.Pods(proc.host), 100)] == [("unknown", None, None)]


@pytest.mark.parametrize("pid", [0, -1, 2**31, 3_221_225_472])
def test_a_pid_that_cannot_be_is_not_looked_up(proc, pid):
    """BR-08: the row stays as it is; it is counted where values are checked."""
    row = reading.RawProcess(pid=pid)

    assert pods.Pods(proc.host)([row]) == (row,)


def test_arguments_are_never_told(proc):
    """A command line may have secrets in it, in its first word too once it is rewritten."""
    folder = proc.process(100, name="vllm")
    (folder / "cmdline").write_bytes(b"vllm: --token=s3cret")

    assert "s3cret" not in repr(owned(pods.Pods(proc.host), 100))


def test_a_name_that_the_driver_told_is_kept(proc):
    """It knows it from when the process was there."""
    proc.process(100)
    named = reading.RawProcess(pid=100, name="trainer")

    assert pods.Pods(proc.host)([named])[0].name == "trainer"


def test_descriptors_do_not_leak(proc):
    """BR-27: after thousands of looks as many files are open as before."""
    proc.process(100)
    (proc.process(101) / "cgroup").unlink()
    owners = pods.Pods(proc.host)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(1_000):
        owned(owners, 100, 101, 102)

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_this_machines_own_processes_have_an_owner():
    """The real `/proc`: where it is the host's, we are told with our own name; elsewhere
    unknown.
    """
    [(_, owner, _, _, name)] = owned(pods.Pods(), os.getpid())

    assert owner in ("pod", "host", "unknown")
    assert name or owner == "unknown"


def test_no_fifo_holds_it_up(proc):
    """A file that is none of the kernel's, as in a broken mount, is no reason to wait."""
    folder = proc.process(100)
    (folder / "cgroup").unlink()
    os.mkfifo(folder / "cgroup")
    assert stat.S_ISFIFO((folder / "cgroup").stat().st_mode)

    assert [row[1] for row in owned(pods.Pods(proc.host), 100)] == ["unknown"]
