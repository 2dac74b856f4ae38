"""Cgroup paths, from text to pods and containers."""

import hypothesis
import pytest
from hypothesis import strategies as st

from edge_agent.core import cgroup

UID = "5a8e4f4c-1b1f-4c38-9f4e-0a4dbb1c9e01"
ESCAPED = UID.replace("-", "_")
STATIC_UID = "36b6d6be73b1065af369b3985edafa09"
OTHER_UID = "fecd2321-17b5-49b9-9f75-8c5be777fbfb"
ID = "0f" * 32
OTHER_ID = "a1" * 32
SLICES = "/kubepods.slice/kubepods-burstable.slice"
ON_HOST = "0::/init.scope\n"
FROM_CONTAINER = "0::/../../../../init.scope\n"

PODS = {
    "systemd, containerd, burstable": (
        f"0::{SLICES}/kubepods-burstable-pod{ESCAPED}.slice/cri-containerd-{ID}.scope"
    ),
    "systemd, containerd, guaranteed": (
        f"0::/kubepods.slice/kubepods-pod{ESCAPED}.slice/cri-containerd-{ID}.scope"
    ),
    "systemd, CRI-O, best effort": (
        "0::/kubepods.slice/kubepods-besteffort.slice/"
        f"kubepods-besteffort-pod{ESCAPED}.slice/crio-{ID}.scope"
    ),
    "systemd, CRI-O, crun's folder inside": (
        f"0::/kubepods.slice/kubepods-pod{ESCAPED}.slice/crio-{ID}.scope/container"
    ),
    "systemd, Docker": f"0::{SLICES}/kubepods-burstable-pod{ESCAPED}.slice/docker-{ID}.scope",
    "systemd, an init of its own inside": (
        f"0::/kubepods.slice/kubepods-pod{ESCAPED}.slice/crio-{ID}.scope/system.slice/a.service"
    ),
    "cgroupfs, containerd, burstable": f"0::/kubepods/burstable/pod{UID}/{ID}",
    "cgroupfs, containerd, guaranteed": f"0::/kubepods/pod{UID}/{ID}",
    "cgroupfs, CRI-O": f"0::/kubepods/besteffort/pod{UID}/crio-{ID}",
    "kubelet with systemd, containerd without": (
        "0::/system.slice/containerd.service/"
        f"kubepods-besteffort-pod{ESCAPED}.slice:cri-containerd:{ID}"
    ),
    "kind, from its node": (
        "0::/kubelet.slice/kubelet-kubepods.slice/"
        f"kubelet-kubepods-pod{ESCAPED}.slice/cri-containerd-{ID}.scope"
    ),
    "kind, from the machine it runs on": (
        f"0::/system.slice/docker-{OTHER_ID}.scope/kubelet.slice/kubelet-kubepods.slice/"
        f"kubelet-kubepods-pod{ESCAPED}.slice/cri-containerd-{ID}.scope"
    ),
    "k3s in Docker, v1": f"4:memory:/docker/{OTHER_ID}/kubepods/burstable/pod{UID}/{ID}",
    "Docker in a pod": (
        f"0::/kubepods.slice/kubepods-pod{ESCAPED}.slice/cri-containerd-{ID}.scope/docker/{OTHER_ID}"
    ),
    "Kubernetes in a pod": f"0::/kubepods/pod{UID}/{ID}/kubepods/pod{OTHER_UID}/{OTHER_ID}",
    "v1": (
        "12:rdma:/\n11:files:/\n"
        f"9:cpu,cpuacct:{SLICES}/kubepods-burstable-pod{ESCAPED}.slice/docker-{ID}.scope\n"
        f"1:name=systemd:{SLICES}/kubepods-burstable-pod{ESCAPED}.slice/docker-{ID}.scope"
    ),
    "hybrid": f"5:devices:/kubepods/pod{UID}/{ID}\n0::/system.slice/containerd.service",
    "removed under a process that has not ended": f"0::/kubepods/pod{UID}/{ID} (deleted)",
}


@pytest.mark.parametrize("said", PODS.values(), ids=PODS)
def test_every_driver_and_runtime_leads_to_pod_and_container(said):
    """Drivers, runtimes and versions write the path their own way; pod and container are the
    same. Of several pods the outermost counts.
    """
    assert cgroup.parse(said + "\n", ON_HOST) == cgroup.Home("pod", UID, ID)


@pytest.mark.parametrize(
    "said",
    [
        f"0::/kubepods.slice/kubepods-pod{STATIC_UID}.slice/cri-containerd-{ID}.scope",
        f"0::/kubepods/burstable/pod{STATIC_UID}/{ID}",
    ],
)
def test_the_uid_of_a_static_pod_is_a_hash(said):
    """It is told as it stands: 32 hex digits, which the API has in an annotation."""
    assert cgroup.parse(said, ON_HOST) == cgroup.Home("pod", STATIC_UID, ID)


@pytest.mark.parametrize(
    "said",
    [
        f"0::/kubepods.slice/kubepods-pod{ESCAPED}.slice/crio-conmon-{ID}.scope",
        f"0::/kubepods/pod{UID}",
        f"0::/kubepods/pod{UID}/not-a-container",
    ],
)
def test_a_process_of_a_pod_may_be_in_no_container(said):
    """A container's monitor is in the pod and not in the container."""
    assert cgroup.parse(said, ON_HOST) == cgroup.Home("pod", UID, None)


@pytest.mark.parametrize(
    ("said", "container_id"),
    [
        ("0::/", None),
        ("0::/system.slice/sshd.service", None),
        ("0::/user.slice/user-1000.slice/session-3.scope", None),
        (f"0::/system.slice/docker-{ID}.scope", ID),
        (f"4:memory:/docker/{ID}", ID),
        (f"0::/machine.slice/libpod-{ID}.scope/container", ID),
        (f"0::/machine.slice/libpod-conmon-{ID}.scope", None),
        (f"0::/home/pod{UID}/{ID}", ID),
        ("0::/system.slice/podman.service", None),
    ],
)
def test_a_whole_path_without_a_pod_is_the_hosts(said, container_id):
    """A container of no pod is told; a folder that is only named like a pod is none."""
    top = "0::/init.scope\n4:memory:/\n"

    assert cgroup.parse(said, top) == cgroup.Home("host", None, container_id)


@pytest.mark.parametrize(
    "said",
    [
        f"0::/../../kubepods-burstable-pod{ESCAPED}.slice/cri-containerd-{ID}.scope",
        f"0::/../../../kubepods-besteffort.slice/kubepods-besteffort-pod{ESCAPED}.slice/crio-{ID}.scope",
        f"0::/../../pod{UID}/{ID}",
        f"0::/../../../besteffort/pod{UID}/{ID}",
    ],
)
def test_other_pods_are_told_from_inside_a_cgroup_namespace(said):
    """BR-34: from a container, where `kubepods` itself may be above what is named."""
    assert cgroup.parse(said, FROM_CONTAINER) == cgroup.Home("pod", UID, ID)


@pytest.mark.parametrize(
    ("said", "container_id"),
    [
        ("0::/", None),
        ("0::/child", None),
        (f"0::/../crio-{ID}.scope", ID),
        (f"0::/../../{ID}", ID),
        ("0::/../../podnamed-by-hand", None),
    ],
)
def test_what_shares_ancestors_with_the_reader_is_unknown(said, container_id):
    """BR-34: it may be in the reader's own pod or in none; neither is said."""
    assert cgroup.parse(said, FROM_CONTAINER) == cgroup.Home("unknown", None, container_id)


def test_who_is_as_far_up_as_process_1_is_seen_whole():
    """A service of the host, seen from a container, is in no pod."""
    said = "0::/../../../../system.slice/sshd.service"

    assert cgroup.parse(said, FROM_CONTAINER) == cgroup.Home("host")


@pytest.mark.parametrize("top", ["", "nonsense", "3:cpu:/"])
def test_without_process_1_nobody_is_said_to_be_in_no_pod(top):
    """What cannot be compared is unknown; a pod that is named is one all the same."""
    pod = f"0::/kubepods/pod{UID}/{ID}"

    assert cgroup.parse("0::/system.slice/sshd.service", top) == cgroup.Home("unknown")
    assert cgroup.parse(pod, top) == cgroup.Home("pod", UID, ID)


@pytest.mark.parametrize("said", ["", "\n", "0:", "0::", "0::relative", "x::/", ":::", "0/1"])
def test_nonsense_is_unknown(said):
    """A text without a path says nothing."""
    assert cgroup.parse(said, ON_HOST) == cgroup.Home("unknown")


@pytest.mark.parametrize(
    "said",
    [
        f"0::/kubepods/pod/{ID}",
        f"0::/kubepods/burstable/{ID}",
        f"0::/kubepods.slice-kubepods_burstable_pod{ESCAPED}.slice.slice/crio-{ID}.scope",
    ],
)
def test_what_is_named_after_pods_in_another_way_is_unknown(said):
    """It is no process of the host, and its pod is not made up."""
    assert cgroup.parse(said, ON_HOST) == cgroup.Home("unknown", None, ID)


def test_hierarchies_that_contradict_each_other_are_unknown():
    """A process that is in two pods at once is in neither, as far as can be said."""
    said = f"3:cpu:/kubepods/pod{UID}/{ID}\n4:memory:/kubepods/pod{OTHER_UID}/{ID}"

    assert cgroup.parse(said, ON_HOST) == cgroup.Home("unknown", None, ID)


@hypothesis.given(said=st.text(max_size=300), top=st.text(max_size=60))
def test_garbage_never_becomes_a_pod(said, top):
    """Any text gives an answer, and none of them a pod that is not in it."""
    home = cgroup.parse(said, top)

    assert home.owner in ("host", "unknown") or "kubepods" in said


@hypothesis.given(
    before=st.lists(
        st.sampled_from(["..", "kubepods", "docker", f"pod{UID}", ID, "a:b"]), max_size=5
    ),
    uid=st.uuids().map(str),
    container_id=st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
)
def test_what_is_told_stands_in_the_path(before, uid, container_id):
    """Whatever stands in front: the pod and the container told are ones of the path."""
    path = [*before, "kubepods", f"pod{uid}", container_id]

    home = cgroup.parse("0::/" + "/".join(path), ON_HOST)

    assert home.owner == "pod"
    place = path.index(f"pod{home.pod_uid}")
    assert home.container_id in (None, *path[place:])
