"""The story of the demo: what is done to the fleet, and what must come of it.

Acts happen at set times; each expectation belongs to an act and has a deadline. The
teller polls the processor's API, as any user could, and notes when each expectation
came true. The story came true only if all of them did and no record is missing.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctl import pipeline
from ctl.demo import relay

Detail = Mapping[str, Any]
BUSY, BROKEN = "edge-05", "edge-03"
POLL_S = 0.2
RECORDS_PER_S_MIN = 0.9


@dataclass(frozen=True, kw_only=True)
class Act:
    """Something done to the fleet, `at_s` after the story's beginning."""

    name: str
    at_s: float
    text: str
    do: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What `node`'s page must show within `within_s` of the act."""

    act: str
    node: str
    text: str
    within_s: float
    holds: Callable[[Detail], bool]
    tell: Callable[[Detail], str] = lambda _: ""


@dataclass
class Teller:
    """Runs a story; `lines` is what was seen so far, `nodes` the fleet as last polled."""

    pipe: pipeline.Pipeline
    acts: list[Act]
    expectations: list[Expectation]
    lines: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self, show: Callable[[], None]) -> None:
        """Tell the story to its end, calling `show` after each poll."""
        begun = time.monotonic()
        done: dict[str, float] = {}
        waiting = list(self.expectations)
        acts = sorted(self.acts, key=lambda a: a.at_s)
        while acts or waiting:
            now_s = time.monotonic() - begun
            while acts and acts[0].at_s <= now_s:
                act = acts.pop(0)
                act.do()
                done[act.name] = now_s
                self._say(now_s, act.text)
            waiting = [e for e in waiting if not self._settled(e, done, now_s)]
            self.poll(show)

    def poll(self, show: Callable[[], None]) -> None:
        """One look at the fleet."""
        self.pipe.must_run()
        self.nodes = self.pipe.nodes() or self.nodes
        show()
        time.sleep(POLL_S)

    def _settled(self, expected: Expectation, done: Mapping[str, float], now_s: float) -> bool:
        if expected.act not in done:
            return False
        took_s = now_s - done[expected.act]
        detail = self.pipe.get(f"/api/nodes/{expected.node}") or {}
        if detail and expected.holds(detail):
            told = expected.tell(detail)
            self._say(now_s, f"  {expected.text}: after {took_s:.1f} s{told and '; ' + told}")
            return True
        if took_s > expected.within_s:
            self.failures.append(f"{expected.text}: not within {expected.within_s:.0f} s")
            self._say(now_s, f"  NOT SEEN: {self.failures[-1]}")
            return True
        return False

    def _say(self, now_s: float, text: str) -> None:
        self.lines.append(f"{now_s:5.1f} s  {text}")


def write(
    pipe: pipeline.Pipeline, link: relay.Relay, *, cut_node: str, fault: Callable[..., None]
) -> Teller:
    """The story that a newcomer sees: a busy node, a dead GPU, a cut link.

    `fault` does to a GPU what a line of the control file says.
    """
    cut_s = 30.0
    before_cut: dict[str, int] = {}

    def cut() -> None:
        verdict = (pipe.get(f"/api/nodes/{cut_node}") or {})["verdict"]
        before_cut["received"] = verdict["intake"]["received"]
        link.cut()

    def caught_up(detail: Detail) -> bool:
        """All that was sampled behind the cut is here: about a record a second, none missing."""
        intake = detail["verdict"]["intake"]
        wanted = before_cut["received"] + int(cut_s * RECORDS_PER_S_MIN)
        return bool(intake["missing"] == 0 and intake["received"] >= wanted)

    acts = [
        Act(
            name="busy",
            at_s=2,
            text=f"{BUSY}: its GPUs are driven to 98 %",
            do=lambda: fault(node=BUSY, fault="load", utilization_percent=98, duration_s=600),
        ),
        Act(
            name="xid",
            at_s=4,
            text=f"{BROKEN}: GPU 0 falls off the bus (XID 79)",
            do=lambda: fault(node=BROKEN, fault="xid", xid=79, gpu=0, duration_s=600),
        ),
        Act(name="cut", at_s=6, text=f"{cut_node}: link cut for {cut_s:.0f} s", do=cut),
        Act(name="back", at_s=6 + cut_s, text=f"{cut_node}: link restored", do=link.restore),
    ]
    expectations = [
        Expectation(
            act="xid",
            node=BROKEN,
            text=f"{BROKEN}: XID to taint gpu-failed:NoSchedule",
            within_s=10,
            holds=lambda d: has_taint(d, "gpu-failed"),
            tell=times,
        ),
        Expectation(
            act="busy",
            node=BUSY,
            text=f"{BUSY}: taint gpu-saturated:PreferNoSchedule",
            within_s=60,
            holds=lambda d: has_taint(d, "gpu-saturated"),
            tell=times,
        ),
        Expectation(
            act="cut",
            node=cut_node,
            text=f"{cut_node}: silence found, load unknown",
            within_s=10,
            holds=lambda d: (
                d["verdict"]["telemetry"] != "fresh" and d["verdict"]["load"] == "unknown"
            ),
        ),
        Expectation(
            act="back",
            node=cut_node,
            text=f"{cut_node}: fresh again",
            within_s=60,
            holds=lambda d: d["verdict"]["telemetry"] == "fresh",
        ),
        Expectation(
            act="back",
            node=cut_node,
            text=f"{cut_node}: backlog delivered, nothing missing",
            within_s=90,
            holds=caught_up,
            tell=lambda d: f"{d['verdict']['intake']['received']} records, 0 missing",
        ),
    ]
    return Teller(pipe, acts, expectations)


def decision_with(detail: Detail, taint: str) -> Mapping[str, Any] | None:
    """The oldest decision of the node that carries the taint and was carried out."""
    for decision in reversed(detail.get("decisions", [])):
        keys = {t["key"].rpartition("/")[2] for t in decision["taints"]}
        if taint in keys and decision["outcome"] in {"applied", "dry-run"}:
            return decision  # type: ignore[no-any-return]
    return None


def has_taint(detail: Detail, taint: str) -> bool:
    """Whether a decision with that taint was carried out."""
    return decision_with(detail, taint) is not None


def times(detail: Detail) -> str:
    """Sample (or event) to verdict to answer, in milliseconds, of the newest decision."""
    decision = detail["decisions"][0]
    verdict = decision["verdict"]
    answered_ms = decision["answered_unix_ms"] or decision["ts_unix_ms"]
    to_verdict_ms = verdict["ts_unix_ms"] - verdict["cause"]["ts_unix_ms"]
    to_answer_ms = answered_ms - verdict["ts_unix_ms"]
    kind = verdict["cause"]["kind"]
    return f"{kind} → verdict {to_verdict_ms} ms → {decision['outcome']} {to_answer_ms} ms"
