"""From a wish to one patch."""

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import plan
from support import steering
from wire.verdict import Taint

DOMAIN = "windvane.io"
FAILED = steering.FAILED
UNREACHABLE = {
    "key": "node.kubernetes.io/unreachable",
    "effect": "NoExecute",
    "timeAdded": "2026-12-01T00:00:00Z",
}


def node(*, labels=None, annotations=None, taints=(), version="7"):
    return plan.ObservedNode(
        name="edge-01",
        resource_version=version,
        labels=labels or {},
        annotations=annotations or {},
        taints=tuple(taints),
        unschedulable=False,
    )


def applied(observed, patch):
    """What the API server makes of a merge patch."""
    if patch is None:
        return observed
    metadata = patch["metadata"]
    assert metadata.get("resourceVersion", observed.resource_version) == observed.resource_version

    def merged(old, new):
        return {k: v for k, v in {**old, **new}.items() if v is not None}

    return node(
        labels=merged(observed.labels, metadata.get("labels", {})),
        annotations=merged(observed.annotations, metadata.get("annotations", {})),
        taints=patch.get("spec", {}).get("taints", observed.taints),
        version=str(int(observed.resource_version) + 1),
    )


def fulfilled(observed, wish):
    return applied(observed, plan.plan(observed, wish, DOMAIN))


keys = st.sampled_from([f"{DOMAIN}/gpu.{n}" for n in ("load", "health", "power")])
our_taints = st.builds(
    Taint,
    key=st.sampled_from(
        [f"{DOMAIN}/gpu-failed", f"{DOMAIN}/gpu-saturated", f"{DOMAIN}/gpu-silent"]
    ),
    value=st.sampled_from(["a", "b"]),
    effect=st.sampled_from(["NoSchedule", "PreferNoSchedule"]),
)
wishes = st.builds(
    lambda labels, taints: steering.wish(labels=labels, taints=sorted(taints)),
    st.dictionaries(keys, st.sampled_from(["a", "b", "unknown"])),
    st.lists(our_taints, max_size=3, unique_by=lambda t: (t.key, t.effect)),
)
foreign_taints = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["a/b", "c", f"{DOMAIN}/gpu-failed"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        },
        optional={"value": st.just("x"), "timeAdded": st.just("2026-12-01T00:00:00Z")},
    ),
    max_size=3,
    unique_by=lambda t: (t["key"], t["effect"]),
)
nodes = st.builds(
    lambda labels, taints: node(labels=labels, taints=taints),
    st.dictionaries(keys | st.sampled_from(["zone", "a/b"]), st.just("theirs")),
    foreign_taints,
)


@given(nodes, st.lists(wishes, min_size=1, max_size=4))
def test_applying_gives_the_wish_on_our_keys_and_leaves_the_rest(start, many):
    """Wish after wish: ours as wished, theirs as they were, and no patch when nothing differs."""
    observed = start
    for wish in many:
        observed = fulfilled(observed, wish)

        for key, value in wish.labels.items():
            assert observed.labels[key] == start.labels.get(key, value)
        for key, value in start.labels.items():
            assert value == observed.labels[key]
        assert observed.labels.keys() == start.labels.keys() | wish.labels.keys()
        theirs = {(t["key"], t["effect"]) for t in start.taints}
        kept = [t for t in observed.taints if (t["key"], t["effect"]) in theirs]
        assert list(start.taints) == kept
        ours = {
            (t["key"], t["value"], t["effect"])
            for t in observed.taints
            if (t["key"], t["effect"]) not in theirs
        }
        wished = {
            (t.key, t.value, t.effect) for t in wish.taints if (t.key, t.effect) not in theirs
        }
        assert wished == ours
        assert plan.plan(observed, wish, DOMAIN) is None


@given(nodes, st.lists(wishes, max_size=3))
def test_clearing_leaves_a_node_as_it_was(start, many):
    """BR-110: after an uninstall all of ours is gone and theirs is untouched."""
    observed = start
    for wish in many:
        observed = fulfilled(observed, wish)
    observed = applied(observed, plan.clear(observed, DOMAIN))

    assert (start.labels, start.annotations) == (observed.labels, observed.annotations)
    assert list(start.taints) == list(observed.taints)
    assert plan.clear(observed, DOMAIN) is None


def test_a_write_of_taints_carries_the_version_and_every_foreign_taint():
    """BR-96, BR-99: the list is written whole, so it is written against what was read."""
    observed = node(taints=[UNREACHABLE], version="41")
    patch = plan.plan(observed, steering.wish(taints=[FAILED]), DOMAIN)

    assert patch["metadata"]["resourceVersion"] == "41"
    assert [UNREACHABLE, {"key": FAILED.key, "value": "xid-79", "effect": "NoSchedule"}] == patch[
        "spec"
    ]["taints"]


def test_a_write_of_labels_alone_carries_no_version_and_no_taints():
    """It cannot undo anybody's taint, and it cannot conflict."""
    patch = plan.plan(node(taints=[UNREACHABLE]), steering.wish(), DOMAIN)

    assert "spec" not in patch
    assert "resourceVersion" not in patch["metadata"]
    assert patch["metadata"]["labels"] == {"windvane.io/gpu.load": "low"}


def test_what_is_unsaid_stays_as_it_is_and_stays_ours():
    """A label of ours of which nothing is known is kept, also over other changes, and cleared."""
    key = f"{DOMAIN}/driver.compatibility"
    load = f"{DOMAIN}/gpu.load"
    observed = fulfilled(node(), steering.wish(labels={load: "low", key: "old"}))

    mute = msgspec.structs.replace(steering.wish(labels={load: "low"}), unsaid=(key,))
    assert plan.plan(observed, mute, DOMAIN) is None

    mute = msgspec.structs.replace(steering.wish(labels={load: "high"}), unsaid=(key,))
    observed = fulfilled(observed, mute)
    assert observed.labels == {load: "high", key: "old"}

    assert fulfilled(node(), mute).labels == {load: "high"}
    assert applied(observed, plan.clear(observed, DOMAIN)).labels == {}


def test_a_taint_of_ours_keeps_its_time():
    """A rewrite of the list does not make our taint younger."""
    observed = fulfilled(node(), steering.wish(taints=[FAILED]))
    (ours,) = observed.taints
    timed = {**ours, "timeAdded": "2026-12-01T00:00:00Z"}
    observed = node(annotations=observed.annotations, taints=[timed], labels=observed.labels)
    soft = Taint(key=f"{DOMAIN}/gpu-saturated", value="saturated", effect="PreferNoSchedule")

    after = fulfilled(observed, steering.wish(taints=[FAILED, soft]))

    assert timed == after.taints[0]


def test_what_a_person_has_set_is_theirs():
    """BR-116: our key with another value, set before our fault: as before when it is over."""
    theirs = {"key": FAILED.key, "value": "maintenance", "effect": "NoSchedule"}
    start = node(taints=[theirs])

    during = fulfilled(start, steering.wish(taints=[FAILED]))
    after = fulfilled(during, steering.wish(taints=[]))

    assert [theirs] == list(during.taints) == list(after.taints)


def test_the_same_key_with_another_effect_is_another_taint():
    """BR-116: a person adds NoExecute beside our NoSchedule; ours goes, theirs stays."""
    theirs = {"key": FAILED.key, "value": "x", "effect": "NoExecute"}
    during = fulfilled(node(), steering.wish(taints=[FAILED]))
    during = node(
        labels=during.labels, annotations=during.annotations, taints=[*during.taints, theirs]
    )

    after = fulfilled(during, steering.wish(taints=[]))

    assert [theirs] == list(after.taints)


def test_a_label_that_is_no_longer_wished_goes():
    """BR-110: a field that is not measured any more leaves no label behind."""
    observed = fulfilled(node(), steering.wish(labels={"windvane.io/old": "x"}))
    patch = plan.plan(observed, steering.wish(labels={}), DOMAIN)

    assert patch["metadata"]["labels"] == {"windvane.io/old": None}


def test_a_restart_changes_nothing_on_the_node():
    """BR-110: the same wish again under another id is no reason to write."""
    observed = fulfilled(node(), steering.wish(taints=[FAILED], number=1))

    assert plan.plan(observed, steering.wish(taints=[FAILED], number=2), DOMAIN) is None


def test_a_node_that_a_person_has_taken_out_is_left_alone():
    """The label `ignore` switches steering off for a node."""
    observed = node(labels={f"{DOMAIN}/ignore": "true"})

    assert plan.plan(observed, steering.wish(taints=[FAILED]), DOMAIN) is None


def test_the_annotations_tell_the_decision_and_what_is_ours():
    """Whoever looks at the node finds the way to the explanation."""
    patch = plan.plan(node(), steering.wish(taints=[FAILED]), DOMAIN)

    annotations = patch["metadata"]["annotations"]
    assert annotations["windvane.io/decision"] == "edge-01-1"
    assert orjson.loads(annotations["windvane.io/owned-keys"]) == {
        "labels": ["windvane.io/gpu.load"],
        "taints": ["windvane.io/gpu-failed:NoSchedule"],
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"labels":1,"taints":[]}', '{"labels":[]}'])
def test_an_annotation_that_cannot_be_read_owns_nothing(text):
    """Better to leave a key than to take somebody's."""
    observed = node(annotations={f"{DOMAIN}/owned-keys": text})

    assert plan.Owned() == plan.owned_keys(observed, DOMAIN)


def test_clearing_labels_alone_needs_no_version():
    """Nothing of ours in the taints, so they are not written."""
    observed = fulfilled(node(taints=[UNREACHABLE]), steering.wish())
    patch = plan.clear(observed, DOMAIN)

    assert "spec" not in patch
    assert patch["metadata"]["labels"] == {"windvane.io/gpu.load": None}
