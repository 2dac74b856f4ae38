"""Levels become events: once, by UUID."""

import msgspec

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


def test_an_unresponsive_gpu_is_told_once_and_so_is_its_return():
    """BR-23: one event when a call does not return, one when the GPU answers again."""
    stuck = Gpu(uuid="B", state="unresponsive")
    heard, _ = play((A, B), (A, stuck), (A, stuck), (A, B))

    assert heard == [[], [("gpu-unresponsive", "B")], [], [("gpu-back", "B")]]


def test_another_recovery_action_is_an_event():
    """none, reset, unreadable, reset, none: two events; one that stands at the start is told."""
    reset = Gpu(uuid="A", recovery_action="gpu-reset")
    none = Gpu(uuid="A", recovery_action="none")
    told = [("recovery-action-changed", "A")]

    assert play((none,), (reset,), (A,), (reset,), (none,))[0] == [[], told, [], [], told]
    assert play((reset,))[0] == [told]


def test_uncorrectable_errors_are_told_with_their_number():
    """ECC errors that were there before are no news; each rise is one event with its count."""
    counts = [5, 5, 7, None, 8, 0, 1]
    known, events = {}, []
    for count in counts:
        gpu = Gpu(uuid="A", ecc_uncorrected_count=count)
        found = changes.compare(known, (gpu,), complete=True, ts_unix_ms=1)
        known = found.known
        events += [(event.event, event.count) for event in found.events]

    assert events == [("ecc-double-bit", 2), ("ecc-double-bit", 1), ("ecc-double-bit", 1)]


def test_a_failed_row_remap_is_told_once():
    """Also when it stood before the agent started."""
    bad = Gpu(uuid="A", remapped_rows_failed=True)

    assert play((bad,), (bad,), (A,), (bad,))[0] == [[("row-remap-failed", "A")], [], [], []]


def test_a_gpu_more_is_an_event():
    """A GPU that was never seen joins: told with the numbers; the first look tells nothing."""
    heard, _ = play((A,), (A, B))

    assert heard == [[], [("gpu-count-changed", "B")]]


def test_a_new_gpu_takes_the_place_of_a_lost_one():
    """BR-17: a replaced card is not missed for ever, and nothing of it is credited to the new."""
    heard, seen = play((A,), (), (B,), (B,))

    assert heard == [[], [("gpu-lost", "A")], [("gpu-count-changed", "B")], []]
    assert seen[2] == (B,)


def test_a_card_taken_out_is_forgotten_after_a_day():
    """It is an alarm for a day, then the node is what it is."""
    known = changes.compare({}, (A, B), complete=True, ts_unix_ms=0).known
    known = changes.compare(known, (A,), complete=True, ts_unix_ms=1).known
    late = changes.compare(known, (A,), complete=True, ts_unix_ms=1 + changes.FORGET_MS)

    assert late.gpus == (A,)
    assert late.events == ()


def test_what_is_known_survives_a_restart():
    """BR-17: after a reboot without A, A is missed by its UUID, once over any number of starts."""
    known = changes.compare({}, (A, B), complete=True, ts_unix_ms=0).known
    heard = []
    for _ in range(3):
        text = msgspec.json.encode(known)
        known = msgspec.json.decode(text, type=dict[str, changes.Known])
        found = changes.compare(known, (B,), complete=True, ts_unix_ms=9)
        known = found.known
        heard.append([event.event for event in found.events])

    assert heard == [["gpu-lost"], [], []]
