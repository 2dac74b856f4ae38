"""Which pod and container a process is in: from the text of `/proc/<pid>/cgroup`. Pure.

A line is `hierarchy:controllers:path`; cgroup v2 has one (`0::path`), v1 a dozen, a hybrid
both. The kubelet puts a pod into `pod<uid>` somewhere below `kubepods` (cgroupfs driver),
or into `kubepods-burstable-pod<uid>.slice` (systemd driver, a hyphen of the UID written as
an underscore, `kubelet-` in front when its root is not the top). The UID of a static pod is
a hash of its file: 32 hex digits and no hyphen; the API server shows another UID for it and
has this one in the annotation `kubernetes.io/config.hash`. The container is below the pod:
64 hex digits, bare or as `cri-containerd-<id>.scope`, `crio-<id>.scope`,
`docker-<id>.scope`, or behind colons in one name with the pod.

Paths are told from where the reader is. In a cgroup namespace of its own (the rule for
containers on v2) another pod is at `/../../kubepods-pod<uid>.slice/...`, and what reader and
process have in common is not named. So a path is compared with that of process 1 of the same
`/proc`, which is at the top: who is as many levels up as that one is seen whole, and if no
pod is named there is none. Who shares an ancestor with the reader may be in the reader's own
pod, or in none: that is `unknown`, never a guess.

Where Kubernetes runs inside a container or a pod (kind, k3s in Docker), two pods may be
named. What process 1 is in itself is the machine, as seen from here, and is left out; of the
rest the outermost pod counts, because that is the one this node's kubelet knows, and in it
the outermost container. So an agent in the inner cluster tells inner pods, one on the
outer node outer pods.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct

from wire.sample import ProcessOwner

LINES_MAX: Final = 64
_UID: Final = r"[0-9A-Za-z](?:[0-9A-Za-z._-]{0,126}[0-9A-Za-z])?"
_SLICE: Final = re.compile(
    rf"(?:[0-9A-Za-z_.-]+-)?kubepods(?:-burstable|-besteffort)?-pod({_UID})\.slice"
)
_FOLDER: Final = re.compile(rf"pod({_UID})")
_USUAL_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
_CONTAINER: Final = re.compile(r"(?:([a-z][a-z-]*)-)?([0-9a-f]{64})(?:\.scope)?")
_KUBEPODS: Final = "kubepods"
_MONITOR: Final = "conmon"
_UP: Final = ".."
_DELETED: Final = " (deleted)"


class Home(Struct, frozen=True):
    """Where a process lives."""

    owner: ProcessOwner
    pod_uid: str | None = None
    container_id: str | None = None


def parse(said: str, of_process_1: str = "0::/") -> Home:
    """The home of a process, seen as process 1 of the same `/proc` is seen."""
    tops = _paths(of_process_1)
    paths = _paths(said)
    homes = [_home(path, tops.get(hierarchy, ())) for hierarchy, path in paths.items()]
    in_pod = [home for home in homes if home.owner == "pod"]
    if in_pod:
        return next((home for home in in_pod if home.container_id), in_pod[0])
    container_id = next((home.container_id for home in homes if home.container_id), None)
    is_whole = bool(homes) and all(home.owner == "host" for home in homes)
    return Home("host" if is_whole else "unknown", None, container_id)


def _paths(said: str) -> Mapping[str, Sequence[str]]:
    """The names on the path in each hierarchy; a line that is none is left out."""
    found: dict[str, Sequence[str]] = {}
    for line in said.splitlines()[:LINES_MAX]:
        hierarchy, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if hierarchy.isdecimal() and colon and path.startswith("/"):
            names = path.removesuffix(_DELETED).split("/")
            found[controllers] = tuple(name for name in names if name)
    return found


def _home(path: Sequence[str], top: Sequence[str]) -> Home:
    """The home by one hierarchy; `top` is where process 1 is."""
    levels_up = _levels_up(path)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(path, top, strict=False)))
    rest = path[max(shared, levels_up) :]
    pod_uid: str | None = None
    container_id: str | None = None
    is_kubepods = False
    for name in rest:
        place, _, tail = name.partition(":")
        if pod_uid is None:
            pod_uid = _pod_uid(place, is_kubepods=is_kubepods, is_relative=levels_up > 0)
            if pod_uid is not None:
                container_id = None
                name = tail.rpartition(":")[2]
        is_kubepods = is_kubepods or name == _KUBEPODS
        container_id = container_id or _container_id(name)
    if pod_uid is not None:
        return Home("pod", pod_uid, container_id)
    return Home("host" if levels_up == _levels_up(top) else "unknown", None, container_id)


def _levels_up(path: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda name: name == _UP, path))


def _pod_uid(name: str, *, is_kubepods: bool, is_relative: bool) -> str | None:
    """The pod that this name stands for. Without `kubepods` in sight only a usual UID is one."""
    found = _SLICE.fullmatch(name)
    if found:
        return found[1].replace("_", "-")
    found = _FOLDER.fullmatch(name)
    if found and (is_kubepods or (is_relative and _USUAL_UID.fullmatch(found[1]))):
        return found[1]
    return None


def _container_id(name: str) -> str | None:
    """The container that this name stands for; a container's monitor is not in it."""
    found = _CONTAINER.fullmatch(name)
    return found[2] if found and not (found[1] or "").endswith(_MONITOR) else None
