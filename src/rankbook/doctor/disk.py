"""Where checkpoints go: space, speed, and whether a file is there whole or not at all."""

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from rankbook.core.atomic import write_atomic
from rankbook.doctor.finding import Finding, Options, nodes, number, ok, problem, size, warning

BLOCK, BLOCKS = 1 << 20, 64
A_PARAMETER = 12  # bytes of a checkpoint: the weight and Adam's two moments, 4 bytes each
LITTLE = 1 << 30  # bytes
NETWORK = ("nfs", "lustre", "ceph", "gpfs", "beegfs", "cifs", "smb", "fuse.", "9p", "virtiofs")
PASSING = ("tmpfs", "ramfs", "overlay")  # gone with the machine, or with the container


def findings(options: Options) -> Iterator[Finding]:
    """Can checkpoints be written to the folder, how fast, and who else will see them?"""
    folder = lasting(options.checkpoints)
    named = options.checkpoints.expanduser().absolute()
    files = [path for path in (named, *named.parents) if path.is_file()]
    if files:
        says = f"{files[0]} is a file, and checkpoints need a folder: what follows is about "
        yield problem("folder", f"{says}{folder}; name another.", str(options.checkpoints))
    elif folder != named:
        says = (
            f"{options.checkpoints} is not there yet: what follows is about {folder}; make it, or "
        )
        yield warning("folder", f"{says}correct the name.", str(options.checkpoints))
    yield written(folder)
    yield space(folder, shutil.disk_usage(folder).free)
    alone = (number(os.environ, "SLURM_STEP_NUM_NODES") or 1) == 1  # else see all_nodes
    yield place(folder, kind_of(folder), nodes(os.environ) if alone else 1)


def lasting(folder: Path) -> Path:
    """`folder`, or what is there of the way to it: nothing is made that was not there."""
    folder = folder.expanduser().absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder


def written(folder: Path) -> Finding:
    """Write a file as checkpoints are: on the disk before it has its name, twice the same name."""
    path = folder / f"rankbook-doctor-{uuid.uuid4().hex[:8]}"
    block = os.urandom(BLOCK)

    def write(file) -> None:
        for _ in range(BLOCKS):
            file.write(block)

    try:
        write_atomic(path, lambda file: file.write(b"old"))
        begin = time.perf_counter()
        write_atomic(path, write)
        seconds = time.perf_counter() - begin
        if path.stat().st_size != BLOCK * BLOCKS:
            says = f"A file in {folder} keeps its old content after a rename: use another disk."
            return problem("checkpoints", says)
    except OSError as error:
        says = f"No checkpoint can be written to {folder} ({error.strerror}): free some space or "
        return problem("checkpoints", f"{says}name another folder.", error.strerror)
    finally:
        path.unlink(missing_ok=True)
    speed = BLOCK * BLOCKS / seconds
    says = f"{BLOCKS} MiB are written, flushed and renamed at {size(speed)}/s: "
    says += f"{1e9 * A_PARAMETER / speed:.0f} s for a billion parameters with Adam's state."
    return ok("checkpoints", says, {"bytes_per_second": round(speed)})


def space(folder: Path, free: int) -> Finding:
    """free: bytes. The old checkpoint stays until the new one is whole, so there are two."""
    parameters = free / (2 * A_PARAMETER)
    says = f"{size(free)} are free in {folder}: two checkpoints of up to {parameters / 1e9:.2g} "
    says += "billion parameters with Adam's state"
    if free < LITTLE:
        return problem("space", f"{says}; free some space, or name another folder.", free)
    return ok("space", f"{says}.", free)


def place(folder: Path, kind: str, many: int) -> Finding:
    """Who sees the folder, and for how long? kind: its file system. many: nodes of this job."""
    if kind in PASSING:
        says = f"{folder} is on {kind}: checkpoints are gone with the container or the machine; "
        return warning("place", f"{says}name a folder on a disk.", kind)
    if many > 1 and not on_network(kind):
        says = f"{folder} is on {kind}, a disk of one machine as it seems: the {many} nodes of this"
        return warning("place", f"{says} job need a shared folder; does each see it?", kind)
    return ok("place", f"{folder} is on {kind}.", kind)


def on_network(kind: str) -> bool:
    """Whether a file system of this kind is another machine's."""
    return kind.startswith(NETWORK)


def kind_of(folder: Path) -> str:
    """The type of the file system of `folder`: ``ext4``, ``nfs4``; "unknown" where none tells."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return "unknown"
    best, kind = -1, "unknown"
    for mount in mounts:
        _, where, its_kind, *_ = mount.split()
        point = Path(where.replace("\\040", " "))
        # the last one on a place counts: it covers the others
        if folder.resolve().is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), its_kind
    return kind
