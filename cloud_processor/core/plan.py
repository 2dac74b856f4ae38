"""From a wish to one patch: only keys that are ours, and only when something differs.

Ours are the labels and taints that we put there: an annotation lists them, and only what
it lists is ever changed or taken away. A key of ours that somebody else has set is
theirs. `spec.taints` is one atomic list, so a patch that carries it carries every foreign
taint untouched, and the version it was computed from: a conflict means to read again.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from wire.verdict import BudgetState, Taint, Verdict

RawTaint = Mapping[str, Any]


class Wish(Struct, frozen=True, kw_only=True):
    """What a node should carry of ours, and why.

    `withheld` is what the brake held back; `unsaid` are labels that stay as they are.
    """

    decision_id: str
    node: str
    pool: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    withheld: tuple[Taint, ...]
    reason: str
    budget: BudgetState
    verdict: Verdict
    unsaid: tuple[str, ...] = ()


class ObservedNode(Struct, frozen=True, kw_only=True):
    """A node as Kubernetes has it; taints as the API gives them."""

    name: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[RawTaint, ...]
    unschedulable: bool


class Owned(Struct, frozen=True, kw_only=True):
    """What the annotation says is ours; a taint is named `key:effect`, as Kubernetes does."""

    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()


def plan(observed: ObservedNode, wish: Wish, domain: str) -> dict[str, Any] | None:
    """The JSON merge patch that fulfils the wish; None when there is nothing to do."""
    if observed.labels.get(f"{domain}/ignore") == "true":
        return None
    owned = owned_keys(observed, domain)
    taken = {k for k in wish.labels if k in observed.labels and k not in owned.labels}
    wanted = {k: v for k, v in wish.labels.items() if k not in taken}
    labels: dict[str, str | None] = {k: v for k, v in wanted.items() if observed.labels.get(k) != v}
    unwished = {k for k in owned.labels if k in observed.labels and k not in wish.labels}
    kept = unwished.intersection(wish.unsaid)
    labels |= dict.fromkeys(unwished - kept)
    taints, ours = _taints(observed, wish, owned)
    taints_differ = taints != [dict(t) for t in observed.taints]
    mine = Owned(labels=tuple(sorted(wanted.keys() | kept)), taints=tuple(sorted(ours)))
    if not labels and not taints_differ and mine == owned:
        return None
    annotations = {
        f"{domain}/decision": wish.decision_id,
        f"{domain}/owned-keys": _written(mine),
    }
    patch: dict[str, Any] = {"metadata": {"annotations": annotations}}
    if labels:
        patch["metadata"]["labels"] = labels
    if taints_differ:
        patch["metadata"]["resourceVersion"] = observed.resource_version
        patch["spec"] = {"taints": taints}
    return patch


def clear(observed: ObservedNode, domain: str) -> dict[str, Any] | None:
    """The patch that takes everything of ours away; None when nothing is there."""
    owned = owned_keys(observed, domain)
    metadata: dict[str, Any] = {}
    labels = {k: None for k in owned.labels if k in observed.labels}
    annotations = {
        k: None for k in (f"{domain}/decision", f"{domain}/owned-keys") if k in observed.annotations
    }
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    foreign = [dict(t) for t in observed.taints if _name(t) not in owned.taints]
    if len(foreign) == len(observed.taints):
        return {"metadata": metadata} if metadata else None
    metadata["resourceVersion"] = observed.resource_version
    return {"metadata": metadata, "spec": {"taints": foreign}}


def owned_keys(observed: ObservedNode, domain: str) -> Owned:
    """What the annotation lists; nothing where it is missing or not readable."""
    try:
        listed = orjson.loads(observed.annotations.get(f"{domain}/owned-keys", "{}"))
        return Owned(
            labels=tuple(str(k) for k in listed["labels"]),
            taints=tuple(str(k) for k in listed["taints"]),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return Owned()


def _taints(
    observed: ObservedNode, wish: Wish, owned: Owned
) -> tuple[list[dict[str, Any]], set[str]]:
    foreign = [dict(t) for t in observed.taints if _name(t) not in owned.taints]
    held = {_name(t) for t in foreign}
    ours: list[dict[str, Any]] = []
    for taint in sorted(wish.taints):
        new = {"key": taint.key, "value": taint.value, "effect": taint.effect}
        if _name(new) in held:
            continue
        same = [dict(t) for t in observed.taints if _same(t, taint)]
        ours.append(same[0] if same else new)
    kept = [dict(t) for t in observed.taints if dict(t) in foreign or dict(t) in ours]
    return kept + [t for t in ours if t not in kept], {_name(t) for t in ours}


def _name(raw: RawTaint) -> str:
    return f"{raw['key']}:{raw['effect']}"


def _same(raw: RawTaint, taint: Taint) -> bool:
    named = (raw["key"], raw.get("value", ""), raw["effect"])
    return named == (taint.key, taint.value, taint.effect)


def _written(owned: Owned) -> str:
    return orjson.dumps({"labels": owned.labels, "taints": owned.taints}).decode()
