"""NVIDIA GPUs through NVML (package nvidia-ml-py, module `pynvml`): `source.Nvml`.

| module | its one job |
|---|---|
| `source` | reads the devices, notices what became of them |
| `driver` | the library: open, versions, devices, and what is missing |
| `table`, `picks` | THE TABLE: which call or field gives which reading, and how |
| `gpu` | one GPU with everything that is read of it in a tick |
| `device` | its quantities: by which way it gives each, and what it gave |
| `ways` | calls and fields made ready for one device |
| `rows` | memory for lists that NVML writes |
| `samples` | what the driver sampled between two ticks |
| `processes`, `mig`, `gpm` | process lists, MIG instances, counters of Hopper and later |
| `inventory` | what does not change while the driver is loaded |
| `events` | the thread that waits for XIDs |
| `watch` | the thread that calls, and what happens when a call does not return |
| `sleep` | whether a GPU is suspended, without waking it |
| `codes` | NVML's return codes, by what they mean here |

NVML's exceptions and structures end in this package.
"""
