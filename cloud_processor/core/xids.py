"""What NVIDIA's XID codes mean for steering. Data, not decisions: a policy may override each.

Names are our own words; severities are drawn from NVIDIA's XID catalogue, compared with
the lists of gpud, dcgm-exporter, the EKS node monitoring agent and the Kubernetes device
plugin (collected 2026-12-01). `fatal` takes the GPU out of service, `degraded` prefers
other nodes, and a code that is known but not listed by name is an application's matter.
"""

from typing import Final, Literal

Severity = Literal["ignore", "degraded", "fatal"]
Action = Literal["none", "restart-app", "reset-gpu", "drain-and-reset", "reboot", "rma-check"]

LAST_KNOWN: Final = 176

NAMED: Final[dict[int, tuple[Severity, Action, str]]] = {
    38: ("degraded", "none", "front-end firmware: watchdog expired"),
    44: ("degraded", "none", "fault while switching graphics context"),
    46: ("fatal", "reset-gpu", "GPU stopped answering, channel timeout"),
    48: ("fatal", "drain-and-reset", "uncorrectable double-bit ECC error"),
    54: ("fatal", "rma-check", "auxiliary power cable missing on the board"),
    62: ("fatal", "reset-gpu", "power-management controller halted"),
    63: ("degraded", "drain-and-reset", "row remap or page retirement recorded"),
    64: ("fatal", "reset-gpu", "row remap or page retirement could not be recorded"),
    74: ("fatal", "reset-gpu", "NVLink error (NVLink 2-4)"),
    78: ("degraded", "none", "vGPU could not be started"),
    79: ("fatal", "reboot", "GPU lost from the PCIe bus"),
    80: ("degraded", "restart-app", "command data checksum mismatch"),
    92: ("degraded", "rma-check", "many corrected single-bit errors"),
    93: ("degraded", "none", "InfoROM write budget exceeded"),
    94: ("degraded", "restart-app", "contained memory error, one app affected"),
    95: ("fatal", "reset-gpu", "uncontained memory error, whole GPU affected"),
    109: ("degraded", "reset-gpu", "context switch timed out"),
    110: ("fatal", "reset-gpu", "security fault"),
    119: ("fatal", "reset-gpu", "GSP firmware call timed out"),
    120: ("fatal", "reset-gpu", "GSP firmware error"),
    121: ("degraded", "none", "corrected errors on the chip-to-chip link"),
    136: ("fatal", "reset-gpu", "NVLink training failed (ALI)"),
    140: ("fatal", "reset-gpu", "unrecovered ECC error seen by the driver"),
    141: ("degraded", "none", "CUDA fast-path channel error"),
    142: ("fatal", "rma-check", "video encoder 3 fault"),
    143: ("fatal", "reset-gpu", "GPU failed to initialise"),
    144: ("degraded", "reset-gpu", "NVLink 5 SAW unit error"),
    145: ("degraded", "reset-gpu", "NVLink 5 RLW unit error"),
    146: ("degraded", "reset-gpu", "NVLink 5 TLW unit error"),
    147: ("degraded", "reset-gpu", "NVLink 5 TREX unit error"),
    148: ("degraded", "reset-gpu", "NVLink 5 port-control error"),
    149: ("degraded", "reset-gpu", "NVLink 5 network interface error, link down reasons"),
    150: ("degraded", "reset-gpu", "NVLink 5 management engine error"),
    151: ("fatal", "reboot", "key rotation failed in confidential computing"),
    155: ("degraded", "reset-gpu", "NVLink event defined by software, often an intended link down"),
    156: ("fatal", "reset-gpu", "a GPU resource was retired"),
    157: ("degraded", "rma-check", "GPU resource retirement failed, nothing left to repair with"),
    158: ("fatal", "reset-gpu", "fatal timeout in the GPU"),
    159: ("degraded", "reset-gpu", "coherent-interface error without data (C2C boards)"),
    160: ("degraded", "none", "memory channel retired"),
    161: ("degraded", "rma-check", "memory channel retirement failed"),
    163: ("degraded", "reset-gpu", "power-smoothing circuit switched off"),
    164: ("degraded", "rma-check", "power-smoothing circuit near end of life"),
    165: ("degraded", "rma-check", "power-smoothing circuit worn out"),
    166: ("degraded", "reset-gpu", "unencrypted NVLink traffic in confidential mode"),
    167: ("fatal", "reboot", "fatal PCIe timeout"),
    168: ("degraded", "reboot", "errors in write-protected memory region, less memory usable"),
    169: ("fatal", "reset-gpu", "SEC2 controller halted"),
    170: ("degraded", "none", "other interrupt on secured NVLink"),
    171: ("fatal", "drain-and-reset", "uncorrectable DRAM error (details of 48)"),
    172: ("fatal", "drain-and-reset", "uncorrectable SRAM error (details of 48)"),
    173: ("fatal", "reboot", "chip-to-chip link failed for good"),
    175: ("degraded", "none", "memory subsystem error"),
    176: ("degraded", "none", "PCIe corrected errors over the limit"),
}


def severity_of(code: int) -> Severity | None:
    """What the catalogue says of a code; None when it does not know it."""
    if code in NAMED:
        return NAMED[code][0]
    return "ignore" if 1 <= code <= LAST_KNOWN else None


def name_of(code: int) -> str:
    """A few words for a person."""
    return NAMED[code][2] if code in NAMED else f"XID {code}"


def action_of(code: int) -> Action:
    """What the vendor asks a person to do about a named code."""
    return NAMED[code][1] if code in NAMED else "none"
