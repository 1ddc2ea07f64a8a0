"""Whether Python, torch, CUDA, the driver and NCCL fit together."""

import ctypes
import os
import platform
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rankbook.doctor.finding import Finding, Options, ok, problem, skipped, warning

OLDEST = (2, 11)  # torch: the oldest that the book's programs are run with
PYTHONS = ((3, 11), (3, 13))
SLOW = 15.0  # seconds for "import torch"; from a local disk it takes two or three
DRIVERS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/kfd")


def findings(options: Options) -> Iterator[Finding]:
    """Python, torch and what it was built for, and what the driver can do."""
    yield python(sys.version_info[:2])
    before, begin = "torch" in sys.modules, time.perf_counter()
    try:
        import torch
        import torch.distributed as dist
    except Exception as error:  # a library that is missing is an OSError
        yield no_torch(error)
        return
    yield torch_release(torch.__version__)
    if not before:
        yield importing(time.perf_counter() - begin, Path(torch.__file__).parent)
    yield cuda(torch.version.cuda or torch.version.hip, driver_supports(), has_driver())
    backends = [name for name in ("gloo", "nccl") if getattr(dist, f"is_{name}_available")()]
    nccl = torch.cuda.nccl.version() if "nccl" in backends else None
    yield communication(backends, nccl)


def python(version: tuple[int, int]) -> Finding:
    """version: (major, minor) of this Python."""
    text = ".".join(map(str, version))
    if PYTHONS[0] <= version <= PYTHONS[1]:
        return ok("python", f"Python {platform.python_version()}.", platform.python_version())
    tested = " to ".join(".".join(map(str, ends)) for ends in PYTHONS)
    says = f"Python {text} is outside of {tested}, with which the book is tested: use one of them."
    return warning("python", says, text)


def no_torch(error: Exception) -> Finding:
    """`error`: what ``import torch`` raised."""
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        says = f"{sys.executable} has no torch: activate the environment that has it."
    else:
        says = f"torch cannot be imported ({str(error).rstrip('.')}): install it again."
    return problem("torch", says)


def torch_release(version: str) -> Finding:
    """version: torch's, as "2.13.0+cpu"."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers >= OLDEST:
        return ok("torch", f"torch {version}.", version)
    oldest = ".".join(map(str, OLDEST))
    says = f"torch {version} is older than {oldest}, which the programs need: install a newer one."
    return problem("torch", says, version)


def importing(seconds: float, where: Path) -> Finding:
    """How long torch took to be imported; a cluster's file server serves all ranks at once."""
    value = round(seconds, 2)
    if seconds < SLOW:
        return ok("import", f"Importing torch takes {seconds:.1f} s.", value)
    says = (
        f"Importing torch took {seconds:.0f} s, which every rank waits for at every start: copy "
        f"the environment from {where.parent} to a disk of the node."
    )
    return warning("import", says, value)


def has_driver() -> bool:
    """Whether this machine has the driver of a GPU."""
    return any(os.path.exists(path) for path in DRIVERS)  # noqa: PTH110 (a device)


def driver_supports() -> int | None:
    """The newest CUDA that the driver can do, as 13000 for 13.0; None without a driver."""
    try:
        driver, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    except OSError:
        return None
    return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def cuda(built: str | None, supports: int | None, driver: bool) -> Finding:
    """Does the driver do the CUDA that torch was built for?

    built: torch's, as "13.0". supports: the driver's, as 13000. Within one major version an older
    driver does. Source: https://docs.nvidia.com/deploy/cuda-compatibility/
    """
    value = {"torch": built, "driver": supports}
    if built is None:
        if driver:
            says = "There is a GPU's driver, but this torch is built without CUDA: install torch's "
            return problem("cuda", f"{says}CUDA build, or train on the CPU.", value)
        return skipped("cuda", "CUDA: this torch is built for CPUs.", value)
    if supports is None:
        if driver:
            return ok("cuda", f"torch is built for CUDA or ROCm {built}.", value)
        return warning("cuda", f"torch is built for CUDA {built}, but no driver is here.", value)
    ours = f"{supports // 1000}.{supports % 1000 // 10}"
    if int(built.split(".")[0]) > supports // 1000:
        says = f"torch is built for CUDA {built}, the driver does {ours} at most: install a newer "
        return problem("cuda", f"{says}driver, or torch built for CUDA {ours}.", value)
    return ok("cuda", f"torch is built for CUDA {built}; the driver does {ours}.", value)


def communication(backends: list[str], nccl: tuple[int | str, ...] | None) -> Finding:
    """backends: of "gloo" and "nccl", those that torch has. nccl: its version, as (2, 27, 3)."""
    value = {"backends": backends, "nccl": nccl and ".".join(map(str, nccl))}
    if not backends:
        return problem("backends", "torch has neither gloo nor NCCL: install another build.", value)
    says = " and ".join(backends).replace("nccl", f"NCCL {value['nccl']}")
    return ok("backends", f"torch can use {says}.", value)
