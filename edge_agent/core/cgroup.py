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
process have in common is not named. So a path is compared with that of process 1, which is at
the top: who is as many levels up as that one is seen whole, and where nothing is named after
pods, there is none. Who shares an ancestor with the reader may be in the reader's own pod:
that is `unknown`, never a guess, and so is a pod written in a way that is not known here.

Where Kubernetes runs inside a pod (kind, k3s in Docker), several pods may be named. The
outermost counts, and in it the outermost container: those are what the kubelet of this
machine knows. A reader inside sees the inner ones, because what it shares is not named.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
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


def parse(said: str, of_process_1: str) -> Home:
    """The home of a process; `of_process_1` is the same file of process 1."""
    tops = {hierarchy: _levels_up(names) for hierarchy, names in _paths(of_process_1)}
    homes = [_home(names, tops.get(hierarchy)) for hierarchy, names in _paths(said)]
    told = [home for home in homes if home.pod_uid] or homes
    if not told:
        return Home("unknown")
    agree = all((home.owner, home.pod_uid) == (told[0].owner, told[0].pod_uid) for home in told)
    found = next((home for home in told if home.container_id), told[0])
    return found if agree else Home("unknown", None, found.container_id)


def _paths(said: str) -> Iterator[tuple[str, Sequence[str]]]:
    """The hierarchies by controllers, and the names on the path; what is none is left out."""
    for line in said.splitlines()[:LINES_MAX]:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdecimal() and path.startswith("/"):
            names = path.removesuffix(_DELETED).split("/")
            yield controllers, [name for name in names if name]


def _home(names: Sequence[str], top_levels_up: int | None) -> Home:
    """The home by one hierarchy."""
    levels_up = _levels_up(names)
    for place, name in enumerate(names):
        front, _, back = name.partition(":")
        is_kubepods = _KUBEPODS in names[:place]
        pod_uid = _pod_uid(front, is_kubepods=is_kubepods, is_relative=levels_up > 0)
        if pod_uid:
            inside = (back.rpartition(":")[2], *names[place + 1 :])
            return Home("pod", pod_uid, _container_id(inside))
    is_whole = levels_up == top_levels_up and not any(_KUBEPODS in name for name in names)
    return Home("host" if is_whole else "unknown", None, _container_id(names))


def _levels_up(names: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda name: name == _UP, names))


def _pod_uid(name: str, *, is_kubepods: bool, is_relative: bool) -> str | None:
    """The pod that this name stands for. Without `kubepods` in sight only a usual UID is one."""
    found = _SLICE.fullmatch(name)
    if found:
        return found[1].replace("_", "-")
    found = _FOLDER.fullmatch(name)
    if found and (is_kubepods or (is_relative and _USUAL_UID.fullmatch(found[1]))):
        return found[1]
    return None


def _container_id(names: Iterable[str]) -> str | None:
    """The first of these names that is a container; a container's monitor is not in it."""
    for name in names:
        found = _CONTAINER.fullmatch(name)
        if found:
            return None if (found[1] or "").endswith(_MONITOR) else found[2]
    return None
