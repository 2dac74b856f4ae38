"""Names that become part of topics, keys and Kubernetes objects.

A name is checked once, where it enters, so that no `+`, `#`, `/` or control
character can ever reach a topic. Nodes are named as Kubernetes names them.
"""

import re
from typing import Annotated, Final

from msgspec import Meta

from wire.errors import WireError

CLUSTER_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
NODE_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

ClusterName = Annotated[str, Meta(pattern=CLUSTER_PATTERN, max_length=63)]
NodeName = Annotated[str, Meta(pattern=NODE_PATTERN, min_length=1, max_length=253)]
Epoch = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$")]
GpuUuid = Annotated[str, Meta(min_length=1, max_length=96)]
UnixMs = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
Seq = Annotated[int, Meta(ge=1, le=2**53)]

_CLUSTER: Final = re.compile(CLUSTER_PATTERN + r"\Z")
_NODE: Final = re.compile(NODE_PATTERN + r"\Z")


def check_cluster(name: str) -> str:
    """Return `name` if it is an RFC 1123 label, else raise `WireError` naming the rule."""
    if not _CLUSTER.match(name):
        rule = "1 to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit"
        raise WireError("invalid-name", f"cluster {name!r}: must be {rule} (RFC 1123 label)")
    return name


def check_node(name: str) -> str:
    """Return `name` if Kubernetes would take it as a node name, else raise `WireError`."""
    if len(name) > 253 or not _NODE.match(name):
        rule = "1 to 253 of a-z, 0-9, '-' and '.', each part beginning and ending with a-z or 0-9"
        raise WireError("invalid-name", f"node {name!r}: must be {rule} (RFC 1123 subdomain)")
    return name


def node_key(cluster: str, node: str) -> str:
    """The one name of a node everywhere in the cloud: Kafka key, table key, API id."""
    return f"{cluster}/{node}"


def split_node_key(key: str) -> tuple[str, str]:
    """`cluster/node` back into its parts; raises `WireError` when it is no such key."""
    cluster, slash, node = key.partition("/")
    if not slash:
        raise WireError("invalid-name", f"key {key!r}: must be cluster/node")
    return check_cluster(cluster), check_node(node)
