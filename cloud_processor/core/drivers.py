"""The node's NVIDIA driver: what its births told of it, and how the matrix judges that.

A birth that lists NVIDIA GPUs is believed; what it leaves out (the driver's version, the
architecture of a GPU that was known) stays as it was told before. A birth without NVIDIA
GPUs changes nothing: a driver that is being replaced looks the same as one that is gone,
and missing data changes no label. A node that never told of an NVIDIA GPU has no driver
here, and simulated or recorded GPUs are not NVIDIA's.

The day is that of UTC. The judgement is not stored: it is always that of today's matrix.
"""

import functools
from datetime import date
from typing import Final

from cloud_processor.core.model import Driver
from wire import matrix, sample
from wire.verdict import DriverVerdict

DAY_MS: Final = 86_400_000
EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
TOLD_MAX: Final = 64
JUDGED_MAX: Final = 1024


def born(known: Driver | None, status: sample.Status) -> Driver | None:
    """What is known of the driver after a birth."""
    listed = [gpu for gpu in status.gpus if gpu.vendor == "nvidia"]
    if not listed:
        return known
    before = known or Driver()
    architectures = dict(before.gpus)
    return Driver(
        _told(status.driver_version) or before.version,
        _told(status.cuda_version) or before.cuda_version,
        tuple((gpu.uuid, _architecture(gpu, architectures.get(gpu.uuid))) for gpu in listed),
    )


def judged(known: Driver | None, now_ms: int) -> DriverVerdict | None:
    """The driver with its judgement as of today; None for a node without one."""
    if known is None:
        return None
    architectures = tuple(dict.fromkeys(architecture for _, architecture in known.gpus))
    return _judged(known.version, known.cuda_version, architectures, now_ms // DAY_MS)


@functools.lru_cache(maxsize=JUDGED_MAX)
def _judged(
    version: str | None, cuda_version: str | None, architectures: tuple[str | None, ...], day: int
) -> DriverVerdict:
    """Nodes that are alike share one answer: this is asked for each envelope."""
    found = matrix.judge_driver(version, architectures, date.fromordinal(EPOCH_ORDINAL + day))
    return DriverVerdict(
        compatibility=found.state,
        reasons=found.reasons,
        version=version,
        cuda_version=cuda_version,
        architectures=architectures,
    )


def _architecture(gpu: sample.GpuInventory, before: str | None) -> str | None:
    """By the matrix's name; else as it was before, for a GPU does not change it; else as told."""
    found = matrix.architecture_of(gpu.architecture, gpu.compute_capability)
    if found is None and before is None and matrix.architecture_of(gpu.architecture) is None:
        return _told(gpu.architecture)
    return found or before


def _told(text: str | None) -> str | None:
    return text[:TOLD_MAX] if text else None
