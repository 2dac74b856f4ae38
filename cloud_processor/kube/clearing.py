"""Takes everything of ours off the nodes: labels, taints, annotations, and nothing else.

For the day Windvane leaves a cluster, and for the end of a demo. Stop the processors
first, or they put it back. What is ours is what the annotation on each node lists.
"""

from collections.abc import Callable, Iterator
from typing import Any

from cloud_processor import config, errors
from cloud_processor.core import plan
from cloud_processor.kube import client, nodes

CONFLICT_ROUNDS = 5
CONFLICT, GONE = 409, 404

Patch = dict[str, Any]


def found(reader: client.NodeReader, domain: str) -> Iterator[tuple[str, Patch]]:
    """Each node that carries something of ours, with the patch that takes it away."""
    items, _ = reader.list()
    for item in items:
        node = nodes.observed(item)
        patch = plan.clear(node, domain)
        if patch is not None:
            yield node.name, patch


def run(settings: config.Kube, domain: str, write: Callable[[str], object]) -> None:
    """Clear all nodes, or list them when `dry_run` is set; a line for each.

    Raises `ProcessorError`; what was cleared until then is, and the next try goes on there.
    """
    if settings.mode == "off":
        raise errors.KubeUnusable("kube.mode is off: there is no cluster to clear")
    try:
        if settings.dry_run:
            for name, patch in found(client.NodeReader(settings), domain):
                write(f"{name}: would be cleared: {patch}\n")
        else:
            clear(client.NodeWriter(settings), domain, lambda name: write(f"{name}: cleared\n"))
    except (client.Refused, client.Unreachable) as error:
        raise errors.ClusterUnreachable(f"not all nodes are cleared, try again: {error}") from error


def clear(writer: client.NodeWriter, domain: str, tell: Callable[[str], object]) -> None:
    """A node that changes meanwhile is read again, one that is gone is done."""
    for name, first in found(writer, domain):
        patch: Patch | None = first
        for left in reversed(range(CONFLICT_ROUNDS)):
            if patch is None:
                break
            try:
                writer.patch(name, patch)
                break
            except client.Refused as refusal:
                if refusal.status == GONE:
                    break
                if refusal.status != CONFLICT or left == 0:
                    raise
                patch = plan.clear(nodes.observed(writer.get(name)), domain)
        tell(name)
