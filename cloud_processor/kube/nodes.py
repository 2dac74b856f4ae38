"""Kubernetes node objects (plain JSON) to the core's `ObservedNode`."""

from collections.abc import Mapping
from typing import Any

from cloud_processor.core import plan


def observed(raw: Mapping[str, Any]) -> plan.ObservedNode:
    """What the plan needs of a node; everything else is left aside."""
    metadata = raw["metadata"]
    spec = raw.get("spec") or {}
    return plan.ObservedNode(
        name=metadata["name"],
        resource_version=metadata.get("resourceVersion", ""),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        taints=tuple(spec.get("taints") or ()),
        unschedulable=bool(spec.get("unschedulable")),
    )


def merged(node: plan.ObservedNode, patch: Mapping[str, Any]) -> plan.ObservedNode:
    """`node` as it would be after a JSON merge patch of labels, annotations and taints."""
    metadata = patch.get("metadata") or {}
    spec = patch.get("spec") or {}
    taints = node.taints
    if "taints" in spec:
        taints = tuple(spec["taints"] or ())
    return plan.ObservedNode(
        name=node.name,
        resource_version=node.resource_version,
        labels=_overlaid(node.labels, metadata.get("labels")),
        annotations=_overlaid(node.annotations, metadata.get("annotations")),
        taints=taints,
        unschedulable=node.unschedulable,
    )


def _overlaid(base: Mapping[str, str], changes: Mapping[str, str | None] | None) -> dict[str, str]:
    after = {**base, **(changes or {})}
    return {key: value for key, value in after.items() if value is not None}
