"""The by-pool step: verdicts of a pool in, wishes for its nodes out.

One owner sees the whole pool, so the brake (`budget`) and the silence of many are judged
here. What a node deserves follows from its verdict alone; what it gets also from the
pool: new taints need leave, taking one away never does. When most of a pool falls silent
at once, or the judges themselves do, the monitor is at fault: nothing new is tainted
until enough of it is back.

A wish is told when it differs from what was told before, and again after a restart.
"""

import zlib
from collections.abc import Iterable

import msgspec

from cloud_processor.core import budget, deserved, health
from cloud_processor.core.model import Bucket, Member, PoolState
from cloud_processor.core.plan import Wish
from cloud_processor.core.policy import Limits, Policy
from wire.verdict import BudgetState, Taint, Verdict

HEARTBEATS_MISSED = 3


def fresh_pool(cluster: str, pool: str) -> PoolState:
    """A pool of which nothing is known."""
    return PoolState(cluster=cluster, pool=pool)


def restored(state: PoolState) -> PoolState:
    """A pool read back from its table: each node's wish is told once more."""
    nodes = {n: msgspec.structs.replace(m, told=None) for n, m in state.nodes.items()}
    return msgspec.structs.replace(state, nodes=nodes)


def on_forget(state: PoolState, node: str, *, now_ms: int) -> PoolState:  # noqa: ARG001
    """The node has left the pool."""
    nodes = {n: m for n, m in state.nodes.items() if n != node}
    return msgspec.structs.replace(state, nodes=nodes)


def on_verdict(
    state: PoolState, verdict: Verdict, *, policy: Policy, now_ms: int
) -> tuple[PoolState, tuple[Wish, ...]]:
    """One verdict later. A verdict older than the last one changes nothing."""
    known = state.nodes.get(verdict.node)
    if known is not None and verdict.ts_unix_ms < known.verdict.ts_unix_ms:
        return state, ()
    member = _heard(known, verdict, now_ms)
    state = msgspec.structs.replace(state, nodes={**state.nodes, verdict.node: member})
    if member.silent_since_ms == now_ms and not state.frozen:
        state = _freeze(state, policy, now_ms)
    return _decide(state, [verdict.node], policy, now_ms, whole=verdict)


def on_tick(state: PoolState, *, policy: Policy, now_ms: int) -> tuple[PoolState, tuple[Wish, ...]]:
    """Some time later: the brake may have eased, silence may have lasted, judges may be gone."""
    state = _freeze(state, policy, now_ms)
    waiting = [
        name
        for name, member in state.nodes.items()
        if deserved.taints(member, policy, now_ms) != member.granted
        or (member.told is None and _is_ripe(member, policy, now_ms))
    ]
    return _decide(state, waiting, policy, now_ms) if waiting else (state, ())


def _heard(known: Member | None, verdict: Verdict, now_ms: int) -> Member:
    """The member with its newest verdict (GPUs aside) and since when it is silent or back."""
    short = msgspec.structs.replace(verdict, gpus=())
    silent = verdict.telemetry != "fresh"
    if known is None:
        return Member(
            verdict=short,
            first_ms=now_ms,
            seen_ms=now_ms,
            silent_since_ms=now_ms if silent else None,
        )
    silent_since_ms, back_ms = known.silent_since_ms, known.back_ms
    if silent and silent_since_ms is None:
        silent_since_ms = now_ms
    elif not silent and silent_since_ms is not None:
        silent_since_ms, back_ms = None, now_ms
    return msgspec.structs.replace(
        known, verdict=short, seen_ms=now_ms, silent_since_ms=silent_since_ms, back_ms=back_ms
    )


def _freeze(state: PoolState, policy: Policy, now_ms: int) -> PoolState:
    """Whether the monitor, not the fleet, is at fault.

    Nodes that were silent long before do not count, neither as fallen nor as standing.
    """
    rules = policy.silence
    since_ms = state.frozen_ms if state.frozen else now_ms
    fallen = long_gone = unjudged = 0
    for member in state.nodes.values():
        unjudged += now_ms - member.seen_ms > HEARTBEATS_MISSED * policy.heartbeat_ms
        if member.silent_since_ms is not None:
            recent = member.silent_since_ms >= since_ms - rules.window_ms
            fallen += recent
            long_gone += not recent
    count = len(state.nodes)
    stood = count - long_gone
    blind = stood >= rules.nodes_min and fallen > rules.share * stood
    judgeless = count >= rules.nodes_min and unjudged > rules.share * count
    frozen = blind or judgeless
    if frozen == state.frozen:
        return state
    return msgspec.structs.replace(state, frozen=frozen, frozen_ms=now_ms)


def _decide(
    state: PoolState,
    names: Iterable[str],
    policy: Policy,
    now_ms: int,
    whole: Verdict | None = None,
) -> tuple[PoolState, tuple[Wish, ...]]:
    """Grant what these nodes deserve, as far as the pool may bear it; tell what is new."""
    order = sorted(names, key=lambda n: (state.nodes[n].verdict.cause.ts_unix_ms, n))
    merits = {name: deserved.taints(state.nodes[name], policy, now_ms) for name in order}
    new = {n: [t for t in merits[n] if not _carries(state.nodes[n], t)] for n in order}
    if any(new.values()):
        state, leave = _ask_leave(state, new, policy, now_ms)
    else:
        leave = {True: frozenset(), False: frozenset()}
    news = []
    nodes = dict(state.nodes)
    for name in order:
        member = nodes[name]
        withheld = tuple(t for t in new[name] if name not in leave[deserved.is_hard(t)])
        granted = tuple(t for t in merits[name] if t not in withheld)
        told = (deserved.labels(member.verdict, policy.domain), granted, withheld)
        if not (member.told or granted or withheld or _is_ripe(member, policy, now_ms)):
            continue
        if (granted, told) != (member.granted, member.told):
            nodes[name] = msgspec.structs.replace(member, granted=granted, told=told)
            news.append(name)
    if not news:
        return state, ()
    state = msgspec.structs.replace(state, nodes=nodes)
    return state, _tell(state, news, policy, now_ms, whole)


def _is_ripe(member: Member, policy: Policy, now_ms: int) -> bool:
    """Whether a node is worth its first labels: something is known of it, or will not be soon.

    A node that has just come is known a few samples later; a write that says `unknown`
    before that is of no use to anybody, and a whole fleet that comes at once makes many.
    """
    verdict = member.verdict
    known = {verdict.load, verdict.thermal, verdict.power, verdict.memory_free} != {"unknown"}
    return known or now_ms - member.first_ms >= policy.first_labels_ms


def _ask_leave(
    state: PoolState, new: dict[str, list[Taint]], policy: Policy, now_ms: int
) -> tuple[PoolState, dict[bool, frozenset[str]]]:
    if state.frozen:
        return state, {True: frozenset(), False: frozenset()}
    leave: dict[bool, frozenset[str]] = {}
    buckets: dict[bool, Bucket] = {}
    for hard in (True, False):
        limits = policy.budget.hard if hard else policy.budget.soft
        candidates = [
            n for n, taints in new.items() if any(deserved.is_hard(t) == hard for t in taints)
        ]
        bucket = budget.refill(
            state.hard if hard else state.soft,
            pool_nodes=len(state.nodes),
            limits=limits,
            now_ms=now_ms,
        )
        leave[hard], buckets[hard] = budget.allow(
            candidates,
            tainted=_tainted(state, hard=hard),
            pool_nodes=len(state.nodes),
            bucket=bucket,
            limits=limits,
        )
    return msgspec.structs.replace(state, hard=buckets[True], soft=buckets[False]), leave


def _tell(
    state: PoolState, news: list[str], policy: Policy, now_ms: int, whole: Verdict | None
) -> tuple[Wish, ...]:
    brake = _brake(state, policy, now_ms)
    tainted = {hard: len(_tainted(state, hard=hard)) for hard in (True, False)}
    wishes = []
    for name in news:
        member = state.nodes[name]
        assert member.told is not None
        labels, taints, withheld = member.told
        verdict = member.verdict if whole is None else whole
        wishes.append(
            Wish(
                decision_id=_id(verdict, member.told),
                node=name,
                pool=state.pool,
                labels=labels,
                taints=taints,
                withheld=withheld,
                reason=_said(verdict) + _why_withheld(state, withheld, tainted, policy),
                budget=brake,
                verdict=verdict,
                unsaid=deserved.unsaid(member.verdict, policy.domain),
            )
        )
    return tuple(wishes)


def _said(verdict: Verdict) -> str:
    words = ", ".join(health.describe(r) for r in verdict.reasons) or "nothing is wrong"
    return f"load {verdict.load}, health {verdict.health}, telemetry {verdict.telemetry}: {words}"


def _why_withheld(
    state: PoolState, withheld: tuple[Taint, ...], tainted: dict[bool, int], policy: Policy
) -> str:
    if not withheld:
        return ""
    keys = ", ".join(t.key.removeprefix(f"{policy.domain}/") for t in withheld)
    if state.frozen:
        return f"; {keys} withheld: most of the pool is silent, the monitor is at fault"
    hard = any(deserved.is_hard(t) for t in withheld)
    limits = policy.budget.hard if hard else policy.budget.soft
    count, most = len(state.nodes), budget.cap(len(state.nodes), limits)
    if tainted[hard] >= most:
        return f"; {keys} withheld: {tainted[hard]} of {count} nodes tainted, at most {most}"
    return f"; {keys} withheld: too many at once, one more each {limits.refill_ms} ms"


def _brake(state: PoolState, policy: Policy, now_ms: int) -> BudgetState:
    limits: Limits = policy.budget.hard
    count = len(state.nodes)
    bucket = budget.refill(state.hard, pool_nodes=count, limits=limits, now_ms=now_ms)
    return BudgetState(
        pool_nodes=count,
        tainted_nodes=len(_tainted(state, hard=True)),
        allowed_nodes=budget.cap(count, limits),
        tokens=round(bucket.tokens or 0.0, 3),
        frozen=state.frozen,
    )


def _tainted(state: PoolState, *, hard: bool) -> set[str]:
    return {
        name
        for name, member in state.nodes.items()
        if member.granted and any(deserved.is_hard(t) == hard for t in member.granted)
    }


def _carries(member: Member, taint: Taint) -> bool:
    """A taint that only changes its value, or its kind among the soft ones, is not new."""
    return any(deserved.is_hard(t) == deserved.is_hard(taint) for t in member.granted)


def _id(verdict: Verdict, told: tuple[dict[str, str], tuple[Taint, ...], tuple[Taint, ...]]) -> str:
    wish = zlib.crc32(msgspec.json.encode(told))
    return f"{verdict.cluster}/{verdict.node}/{verdict.revision}-{wish:08x}"
