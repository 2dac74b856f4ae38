"""Levels become events: once, by UUID."""

from edge_agent.core import changes
from wire.sample import Gpu

A, B = Gpu(uuid="A"), Gpu(uuid="B")


def play(*ticks, complete=True):
    known, heard, seen = {}, [], []
    for number, gpus in enumerate(ticks):
        found = changes.compare(known, gpus, complete=complete, ts_unix_ms=number)
        known = found.known
        heard.append([(event.event, event.gpu_uuid) for event in found.events])
        seen.append(found.gpus)
    return heard, seen


def test_a_lost_gpu_is_told_once():
    """BR-21: lost from the second tick on: one event, the other GPU goes on, one event back."""
    lost = Gpu(uuid="B", state="lost")
    heard, _ = play((A, B), (A, lost), (A, lost), (A, lost), (A, B), (A, B))

    assert heard == [[], [("gpu-lost", "B")], [], [], [("gpu-back", "B")], []]


def test_a_missing_gpu_is_lost_by_its_uuid():
    """BR-17: A vanishes, B moves to A's index: A is lost and stays in the samples, B is itself."""
    heard, seen = play((A, B), (B,), (B,))

    assert heard[1:] == [[("gpu-lost", "A")], []]
    assert seen[1] == seen[2] == (B, Gpu(uuid="A", state="lost"))


def test_what_does_not_claim_to_be_complete_loses_nothing():
    """A recording tells only those that have a row at that moment."""
    heard, seen = play((A, B), (B,), (A,), complete=False)

    assert heard == [[], [], []]
    assert seen[1] == (B,)


def test_throttling_is_an_event_at_its_start_and_end():
    """Thermal slowdown starts and stops; a power cap is no throttling; unknown keeps the state."""
    slow = Gpu(uuid="A", throttle_reasons=("hw-thermal-slowdown", "sw-power-cap"))
    capped = Gpu(uuid="A", throttle_reasons=("sw-power-cap",))
    heard, _ = play((capped,), (slow,), (slow,), (A,), (capped,))

    assert heard == [[], [("throttle-start", "A")], [], [], [("throttle-stop", "A")]]
