"""What NVIDIA's XID codes mean. Data, not decisions: a policy may override each severity.

Every part of Windvane reads this one table. Source: NVIDIA's XID catalogue workbook and the
open kernel modules' `nverror.h` (595.45.04, whose last code is 176), compared with the lists
of gpud, dcgm-exporter, the EKS node monitoring agent and the Kubernetes device plugin;
collected 2026-12-01. Names are our own words.

Class: whose matter it is. `application`, a program's own fault; `hardware`, the chip, its
memory, links, heat or power; `driver`, the driver and its firmware, notices included.
Severity: `ignore`, nothing to steer by; `degraded`, keep running and place new work
elsewhere; `fatal`, out of service until the action is done. Where the sources disagree the
more careful reading was taken. NVLink 5 codes (144 to 150) have sub-codes, some of which
are harmless; they are not told apart here. "Old GPUs" and "unused" are codes that Ampere
and later do not raise.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec import Struct

from wire.sample import XidClass, XidSeverity

XidAction = Literal["none", "restart-app", "reset-gpu", "drain-and-reset", "reboot", "rma-check"]
"""The vendor's usual advice. `drain-and-reset`: move everything off, then reset the GPU;
`rma-check`: have the board looked at."""


class Xid(Struct, frozen=True):
    """One code. One that is not in the catalogue has class and severity `unknown`."""

    code: int
    name: str
    xid_class: XidClass
    severity: XidSeverity
    action: XidAction


def lookup(code: int) -> Xid:
    """What the catalogue says of `code`; it never guesses."""
    return CATALOGUE.get(code) or Xid(code, f"XID {code}", "unknown", "unknown", "none")


def _parse(row: str) -> Xid:
    """One row of the table; a word that is not of the vocabulary is refused at import."""
    return msgspec.convert(
        dict(zip(COLUMNS, row.split(maxsplit=4), strict=True)), Xid, strict=False
    )


COLUMNS: Final = ("code", "xid_class", "severity", "action", "name")
TABLE: Final = """
  1 driver      ignore   none            command FIFO method fault (old GPUs)
  2 driver      ignore   none            command FIFO software method fault (old GPUs)
  3 driver      ignore   none            command FIFO unknown method (old GPUs)
  4 driver      ignore   none            command FIFO channel busy (old GPUs)
  5 driver      ignore   none            command FIFO overrun (old GPUs)
  6 driver      ignore   none            command FIFO parse fault (old GPUs)
  7 driver      ignore   none            command FIFO address fault (old GPUs)
  8 application ignore   restart-app     channel made no progress
  9 driver      ignore   none            graphics instance fault (old GPUs)
 10 driver      ignore   none            single-step graphics fault (old GPUs)
 11 application ignore   restart-app     bad command stream, missing hardware object
 12 driver      ignore   none            graphics software-method fault (old GPUs)
 13 application ignore   restart-app     shader or graphics engine exception
 14 driver      ignore   none            injected test error
 15 driver      ignore   none            scanline wait expired (old GPUs)
 16 driver      ignore   none            vertical-blank callback expired, display hung (old GPUs)
 17 driver      ignore   none            bad channel parameter (old GPUs)
 18 driver      ignore   none            PCI bus mastering off or timed out (old GPUs)
 19 driver      ignore   none            display notifier missed (old GPUs)
 20 application ignore   none            MPEG engine command fault (old GPUs)
 21 application ignore   none            motion-estimation engine command fault (old GPUs)
 22 application ignore   none            video engine command fault (old GPUs)
 23 driver      ignore   none            error logging switched on (unused)
 24 driver      ignore   none            graphics semaphore wait expired (old GPUs)
 25 application ignore   restart-app     illegal notify in command stream
 26 driver      ignore   none            framebuffer interface wait expired (old GPUs)
 27 driver      ignore   none            video processor fault (old GPUs)
 28 driver      ignore   none            video processor 2 fault (old GPUs)
 29 driver      ignore   none            bitstream processor fault (old GPUs)
 30 driver      ignore   none            bad semaphore address (old GPUs)
 31 application ignore   restart-app     MMU page fault by a GPU unit
 32 application ignore   restart-app     push-buffer DMA fault
 33 driver      ignore   none            security engine fault (old GPUs)
 34 driver      ignore   none            video VLD engine fault (old GPUs)
 35 driver      ignore   none            video decode engine fault (old GPUs)
 36 driver      ignore   none            video post-processing engine fault (old GPUs)
 37 driver      ignore   none            front-end firmware: unknown method
 38 driver      degraded none            front-end firmware: watchdog expired
 39 application ignore   restart-app     copy engine 0 fault
 40 application ignore   restart-app     copy engine 1 fault
 41 application ignore   restart-app     copy engine 2 fault
 42 driver      ignore   none            video image compositor fault (unused)
 43 application ignore   none            channel reset after user fault, GPU stays healthy
 44 driver      degraded none            fault while switching graphics context
 45 application ignore   none            channels torn down after an earlier fault or app abort
 46 hardware    fatal    reset-gpu       GPU stopped answering, channel timeout
 47 driver      ignore   none            video encoder 0 fault (unused on new GPUs)
 48 hardware    fatal    drain-and-reset uncorrectable double-bit ECC error
 49 driver      ignore   none            power-state policy set by registry (unused)
 50 driver      ignore   none            power-state change after channel fault (unused)
 51 driver      ignore   none            power-state stress test failed (unused)
 52 hardware    ignore   none            power-state change: temperature rise (unused)
 53 hardware    ignore   none            clocks cut for temperature (unused)
 54 hardware    fatal    rma-check       auxiliary power cable missing on the board
 55 hardware    ignore   none            temperature sensor read failed (unused)
 56 driver      ignore   none            display channel exception (unused on data-centre GPUs)
 57 hardware    ignore   none            memory link training failed (old GPUs)
 58 hardware    ignore   none            memory interface error (old GPUs)
 59 driver      ignore   none            power-management controller error (old driver name)
 60 driver      ignore   restart-app     SEC2 / video security processor fault
 61 driver      ignore   none            power-management controller breakpoint (old driver name)
 62 hardware    fatal    reset-gpu       power-management controller halted
 63 hardware    degraded drain-and-reset row remap or page retirement recorded
 64 hardware    fatal    reset-gpu       row remap or page retirement could not be recorded
 65 driver      ignore   none            video encoder 1 fault (unused on new GPUs)
 66 driver      ignore   none            illegal register access by driver
 67 driver      ignore   none            illegal access, verification violation
 68 application ignore   restart-app     video decoder 0 fault
 69 application ignore   restart-app     graphics class error
 70 application ignore   restart-app     copy engine 3 fault
 71 application ignore   restart-app     copy engine 4 fault
 72 application ignore   restart-app     copy engine 5 fault
 73 driver      ignore   none            video encoder 2 fault (unused)
 74 hardware    fatal    reset-gpu       NVLink error (NVLink 2-4)
 75 application ignore   restart-app     copy engine 6 fault
 76 application ignore   restart-app     copy engine 7 fault
 77 application ignore   restart-app     copy engine 8 fault
 78 driver      degraded none            vGPU could not be started
 79 hardware    fatal    reboot          GPU lost from the PCIe bus
 80 hardware    degraded restart-app     command data checksum mismatch
 81 hardware    ignore   none            VGA subsystem error (unused)
 82 application ignore   restart-app     JPEG engine 0 fault
 83 application ignore   restart-app     video decoder 1 fault
 84 application ignore   restart-app     video decoder 2 fault
 85 application ignore   restart-app     copy engine 9 fault
 86 application ignore   restart-app     optical-flow engine fault
 87 driver      ignore   none            driver telemetry report (unused)
 88 application ignore   restart-app     video decoder 3 fault
 89 application ignore   restart-app     video decoder 4 fault
 90 hardware    ignore   none            level-two cache error (unused)
 91 driver      ignore   none            reserved
 92 hardware    degraded rma-check       many corrected single-bit errors
 93 driver      degraded none            InfoROM write budget exceeded
 94 hardware    degraded restart-app     contained memory error, one app affected
 95 hardware    fatal    reset-gpu       uncontained memory error, whole GPU affected
 96 application ignore   restart-app     video decoder 5 fault
 97 application ignore   restart-app     video decoder 6 fault
 98 application ignore   restart-app     video decoder 7 fault
 99 application ignore   restart-app     JPEG engine 1 fault
100 application ignore   restart-app     JPEG engine 2 fault
101 application ignore   restart-app     JPEG engine 3 fault
102 application ignore   restart-app     JPEG engine 4 fault
103 application ignore   restart-app     JPEG engine 5 fault
104 application ignore   restart-app     JPEG engine 6 fault
105 application ignore   restart-app     JPEG engine 7 fault
106 driver      ignore   none            out-of-band interface test message
107 driver      ignore   none            out-of-band interface silent test message
108 hardware    ignore   none            remote NVLink address translation (unused)
109 driver      degraded reset-gpu       context switch timed out
110 hardware    fatal    reset-gpu       security fault
111 driver      ignore   none            display bundle event (unused)
112 driver      ignore   none            display supervisor error (unused)
113 driver      ignore   none            DisplayPort link training failed (unused)
114 driver      ignore   none            display underflow (unused)
115 driver      ignore   none            display core channel error (unused)
116 driver      ignore   none            display window channel error (unused)
117 driver      ignore   none            display cursor channel error (unused)
118 driver      ignore   none            display head register error (unused)
119 driver      fatal    reset-gpu       GSP firmware call timed out
120 driver      fatal    reset-gpu       GSP firmware error
121 hardware    degraded none            corrected errors on the chip-to-chip link
122 hardware    ignore   none            SPI read through the PMU failed (unused)
123 hardware    ignore   none            SPI write through the PMU failed (unused)
124 hardware    ignore   none            SPI erase through the PMU failed (unused)
125 hardware    ignore   none            InfoROM file system error (unused)
126 application ignore   restart-app     copy engine 10 fault
127 application ignore   restart-app     copy engine 11 fault
128 application ignore   restart-app     copy engine 12 fault
129 application ignore   restart-app     copy engine 13 fault
130 application ignore   restart-app     copy engine 14 fault
131 application ignore   restart-app     copy engine 15 fault
132 application ignore   restart-app     copy engine 16 fault
133 application ignore   restart-app     copy engine 17 fault
134 application ignore   restart-app     copy engine 18 fault
135 application ignore   restart-app     copy engine 19 fault
136 hardware    fatal    reset-gpu       NVLink training failed (ALI)
137 application ignore   none            illegal NVLink peer access
138 application ignore   none            DLA channel error (unused)
139 application ignore   restart-app     optical-flow engine 1 fault
140 hardware    fatal    reset-gpu       unrecovered ECC error seen by the driver
141 application degraded none            CUDA fast-path channel error
142 hardware    fatal    rma-check       video encoder 3 fault
143 hardware    fatal    reset-gpu       GPU failed to initialise
144 hardware    degraded reset-gpu       NVLink 5 SAW unit error
145 hardware    degraded reset-gpu       NVLink 5 RLW unit error
146 hardware    degraded reset-gpu       NVLink 5 TLW unit error
147 hardware    degraded reset-gpu       NVLink 5 TREX unit error
148 hardware    degraded reset-gpu       NVLink 5 port-control error
149 hardware    degraded reset-gpu       NVLink 5 network interface error, link down reasons
150 hardware    degraded reset-gpu       NVLink 5 management engine error
151 driver      fatal    reboot          key rotation failed in confidential computing
152 application ignore   none            DLA memory-unit error
153 application ignore   none            DLA timed out
154 driver      ignore   none            recovery action of the GPU changed
155 hardware    degraded reset-gpu       NVLink event set by software, often an intended link down
156 hardware    fatal    reset-gpu       a GPU resource was retired
157 hardware    degraded rma-check       GPU resource retirement failed, nothing left to repair with
158 hardware    fatal    reset-gpu       fatal timeout in the GPU
159 driver      degraded reset-gpu       coherent-interface error without data (C2C boards)
160 hardware    degraded none            memory channel retired
161 hardware    degraded rma-check       memory channel retirement failed
162 driver      ignore   none            power-smoothing circuit active again
163 hardware    degraded reset-gpu       power-smoothing circuit switched off
164 hardware    degraded rma-check       power-smoothing circuit near end of life
165 hardware    degraded rma-check       power-smoothing circuit worn out
166 hardware    degraded reset-gpu       unencrypted NVLink traffic in confidential mode
167 hardware    fatal    reboot          fatal PCIe timeout
168 hardware    degraded reboot          errors in write-protected memory region, less memory usable
169 hardware    fatal    reset-gpu       SEC2 controller halted
170 hardware    degraded none            other interrupt on secured NVLink
171 hardware    fatal    drain-and-reset uncorrectable DRAM error (details of 48)
172 hardware    fatal    drain-and-reset uncorrectable SRAM error (details of 48)
173 hardware    fatal    reboot          chip-to-chip link failed for good
174 application ignore   none            process ended by the driver, silent variant of 43
175 hardware    degraded none            memory subsystem error
176 hardware    degraded none            PCIe corrected errors over the limit
"""

CATALOGUE: Final[Mapping[int, Xid]] = {
    found.code: found for found in map(_parse, TABLE.strip().splitlines())
}
