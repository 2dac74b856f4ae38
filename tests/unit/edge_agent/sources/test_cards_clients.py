"""Who uses AMD and Intel GPUs: the DRM clients of all processes."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.core import reading
from edge_agent.sources import cards_clients, cards_fdinfo
from support.cards import tree

SLOT = "0000:03:00.0"
MIB = 1024**2


class Bench:
    """A host's `/proc`, a clock that is set by hand, and one GPU's slot."""

    def __init__(self, root, slot=SLOT, *, integrated=False, sees_host=True):
        self.now_s = 10.0
        self.slot = slot
        self.integrated = integrated
        self.host = tree.Tree(Path(root), sees_host=sees_host)
        self.clients = cards_clients.Clients(self.host.host.proc, lambda: self.now_s)

    def look(self, after_s=1.0):
        self.now_s += after_s
        return self.clients.look({self.slot: self.integrated})[self.slot]

    def client(self, pid, descriptor=3, *, number=1, driver="i915", node="/dev/dri/card0", **keys):
        lines = [f"drm-driver:\t{driver}", f"drm-pdev:\t{self.slot}", f"drm-client-id:\t{number}"]
        for key, value in keys.items():
            name = key.replace("_", "-").replace("enc-1", "enc_1")
            lines.append(f"drm-{name}:\t{value}")
        self.host.client(pid, descriptor, lines, node)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("index", "slot", "integrated", "expected"),
    [
        (0, "0000:08:00.0", False, 2068 * 1024),
        (0, "0000:08:00.0", True, (2068 + 8192) * 1024),
        (1, "0000:83:00.0", False, 76 * 1024),
        (2, "0000:03:00.0", False, 37584 * 1024),
        (3, "0000:00:02.0", True, 6044 * 1024),
        (4, "0000:00:02.0", True, None),
        (5, "0000:03:00.0", False, 23992 * 1024),
        (6, "0000:4d:00.0", False, (65072580 + 63753540) * 1024),
    ],
)
def test_a_captured_client_tells_its_memory(tmp_path, index, slot, integrated, expected):
    """Each driver's form of fdinfo gives the memory on the GPU; none where it tells none."""
    bench = Bench(tmp_path, slot, integrated=integrated)
    bench.host.client(70, 5, tree.CLIENTS[index]["lines"])

    (process,) = bench.look().processes

    assert (process.pid, process.memory_used_bytes) == (70, expected)


def test_another_drivers_client_is_none_of_ours(tmp_path):
    """An NPU is no GPU, even in the slot of one."""
    bench = Bench(tmp_path, "0000:03:00.0")
    bench.host.client(70, 5, tree.CLIENTS[7]["lines"], "/dev/accel/accel0")

    assert bench.look().processes == ()


def test_a_client_is_counted_once(bench):
    """Two descriptors of one client, in one process or in two, are one; two clients are two."""
    bench.client(70, 3, number=1, total_local0="4 MiB")
    bench.client(70, 4, number=1, total_local0="4 MiB")
    bench.client(70, 5, number=2, total_local0="1 MiB")
    bench.client(90, 3, number=1, total_local0="4 MiB")
    bench.client(90, 4, number=3, total_local0="2 MiB")

    found = {one.pid: one.memory_used_bytes for one in bench.look().processes}

    assert found == {70: 5 * MIB, 90: 2 * MIB}


def test_only_descriptors_of_drm_nodes_are_read(bench):
    """What another file's fdinfo says is not read."""
    bench.client(70, 3, node="/tmp/anything")

    assert bench.look().processes == ()


def test_clients_of_other_cards_are_not_this_ones(bench):
    """Each GPU has the clients of its own slot; cards that were not asked for have none told."""
    bench.client(70, 3)
    bench.slot = "0000:99:00.0"
    bench.client(71, 3)

    assert [one.pid for one in bench.clients.look({SLOT: False})[SLOT].processes] == [70]


def test_use_is_the_engine_time_between_two_looks(bench):
    """Nanoseconds over the clock, in percent, of the busiest class that draws or computes."""
    bench.client(70, engine_render="1000000 ns", engine_video="0 ns")
    assert bench.look().utilization_percent is None
    bench.client(70, engine_render="501000000 ns", engine_video="900000000 ns")

    found = bench.look(after_s=2.0)

    assert found.utilization_percent == pytest.approx(25.0)
    assert found.processes[0].sm_utilization_percent == pytest.approx(25.0)


def test_use_of_all_clients_is_summed_by_engine(bench):
    """Two processes on one engine add up; on two engines the busier one counts."""
    bench.client(70, number=1, engine_render="0 ns", engine_compute="0 ns")
    bench.client(71, number=2, engine_render="0 ns", engine_compute="0 ns")
    bench.look()
    bench.client(70, number=1, engine_render="300000000 ns", engine_compute="100000000 ns")
    bench.client(71, number=2, engine_render="200000000 ns", engine_compute="500000000 ns")

    found = bench.look()

    assert found.utilization_percent == pytest.approx(60.0)
    assert [one.sm_utilization_percent for one in found.processes] == pytest.approx([30.0, 50.0])


def test_cycles_are_over_the_cycles_that_went_by_and_the_capacity(bench):
    """xe counts cycles: busy ones over all of them, divided by how many engines there are."""
    keys = {"driver": "xe", "engine_capacity_ccs": "4"}
    bench.client(70, cycles_ccs="1000", total_cycles_ccs="100000", **keys)
    bench.look()
    bench.client(70, cycles_ccs="3000", total_cycles_ccs="101000", **keys)

    assert bench.look().utilization_percent == pytest.approx(50.0)


def test_encoder_and_decoder_are_apart(bench):
    """amdgpu tells the two; the busier of two encoders counts."""
    keys = {"driver": "amdgpu"}
    bench.client(70, engine_enc="0 ns", engine_enc_1="0 ns", engine_dec="0 ns", **keys)
    bench.look()
    bench.client(
        70, engine_enc="100000000 ns", engine_enc_1="200000000 ns", engine_dec="50000000 ns", **keys
    )

    (process,) = bench.look().processes

    assert process.encoder_utilization_percent == pytest.approx(20.0)
    assert process.decoder_utilization_percent == pytest.approx(5.0)


def test_a_value_that_goes_back_gives_nothing_until_it_passes_the_old_one(bench):
    """Engine times may go back for a while: no use then, and none counted twice after."""
    bench.client(70, engine_render="500000000 ns")
    bench.look()
    bench.client(70, engine_render="400000000 ns")
    assert bench.look().utilization_percent is None
    bench.client(70, engine_render="700000000 ns")

    assert bench.look().utilization_percent == pytest.approx(10.0)


@pytest.mark.parametrize(("busy_ns", "expected"), [(1_020_000_000, 100.0), (3_000_000_000, None)])
def test_more_than_all_the_time(bench, busy_ns, expected):
    """A little over 100 % is two clocks' difference; far over it is no percentage."""
    bench.client(70, engine_render="0 ns")
    bench.look()
    bench.client(70, engine_render=f"{busy_ns} ns")

    assert bench.look().utilization_percent == expected


def test_without_clients_the_gpu_is_idle(bench):
    """0 % is told from the second look on, when nobody uses the GPU."""
    assert bench.look().utilization_percent is None
    assert bench.look().utilization_percent == 0.0


def test_without_the_hosts_processes_nothing_is_told(tmp_path):
    """In a pid namespace of its own the agent would see nobody: not 0 %, and no wrong pids."""
    bench = Bench(tmp_path, sees_host=False)
    bench.client(70)
    bench.look()

    found = bench.look()

    assert isinstance(found.utilization_percent, reading.Failed)
    assert found.processes == ()


def test_processes_that_may_not_be_read_make_the_use_unknown(bench, monkeypatch):
    """Who may not look at others' descriptors does not know what they do; his own are told."""
    bench.client(70, engine_render="0 ns")
    (bench.host.proc / "80/fd").mkdir(parents=True)
    sound = os.scandir

    def refusing(path):
        if str(path).endswith("/80/fd"):
            raise PermissionError(13, "Permission denied")
        return sound(path)

    monkeypatch.setattr(os, "scandir", refusing)
    bench.look()

    found = bench.look()

    assert isinstance(found.utilization_percent, reading.Failed)
    assert [one.pid for one in found.processes] == [70]


def test_a_process_that_ends_meanwhile_is_no_problem(bench):
    """A descriptor without its fdinfo, and a process without descriptors, are left out."""
    bench.client(70, engine_render="0 ns")
    bench.client(71, number=2)
    (bench.host.proc / "71/fdinfo/3").unlink()
    (bench.host.proc / "72").mkdir()
    bench.look()

    assert [one.pid for one in bench.look().processes] == [70]


def test_what_is_forgotten_starts_anew(bench):
    """A client that is away for one look has no use in the look after it comes back."""
    bench.client(70, engine_render="0 ns")
    bench.look()
    file = bench.host.proc / "70/fdinfo/3"
    text = file.read_text(encoding="utf-8")
    file.unlink()
    bench.look()
    file.write_text(text.replace("0 ns", "900000000 ns"), encoding="utf-8")

    assert bench.look().processes[0].sm_utilization_percent is None


def test_a_process_that_opens_a_node_later_is_found(bench):
    """One that held none is looked at again within five looks, and then in each."""
    for pid in range(70, 75):
        (bench.host.proc / f"{pid}/fd").mkdir(parents=True)
    bench.look()
    for pid in range(70, 75):
        bench.client(pid, number=pid)

    seen = [len(bench.look().processes) for _ in range(6)]

    assert seen == [1, 2, 3, 4, 5, 5]


LINES = [line for one in tree.CLIENTS for line in one["lines"]]
mangled = st.lists(
    st.sampled_from(LINES) | st.text(max_size=40) | st.from_regex(r"drm-[a-z-]{1,20}:.{0,20}"),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(lines=mangled)
def test_any_text_is_a_client_or_none(lines):
    """Mangled fdinfo gives a client with sizes and times of 0 or more, none, or a refusal."""
    try:
        client = cards_fdinfo.parse("\n".join(lines))
    except cards_fdinfo.NonsenseError:
        return
    if client is not None:
        assert all(size >= 0 for size in client.memory.values())
        assert all(one.busy >= 0 and one.capacity >= 1 for one in client.engines.values())


@pytest.mark.parametrize(
    "key", ["engine_render", "engine_capacity_render", "total_local0", "cycles_rcs"]
)
@pytest.mark.parametrize("value", ["", "-1 ns", "1 s", "1 GiB", "x", "9" * 30])
def test_a_client_with_nonsense_makes_the_use_unknown(key, value):
    """A client that cannot be understood may use the GPU: the others stay, the sum is unknown."""
    with tempfile.TemporaryDirectory() as root:
        bench = Bench(root)
        bench.client(70, number=1, engine_render="0 ns")
        bench.client(71, number=2, **{"engine_render": "1 ns", key: value})
        bench.look()

        found = bench.look()

    assert isinstance(found.utilization_percent, reading.Failed)
    assert [one.pid for one in found.processes] == [70]
