"""How long until torch is imported everywhere: many small files, asked for by every rank.

The names and bytes of one import are measured (benchmarks/start_up.py). What follows for many
nodes is arithmetic. That shared file systems answer slower than they deliver is well known:
https://docs.nersc.gov/development/languages/python/scaling-up/.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rankbook.cost_model.cluster_spec import ClusterSpec


@dataclass(frozen=True)
class Reads:
    """What importing costs one process.

    opens: calls that open a file, found or not. names: different paths that were asked for.
    nbytes: read, and touched in mapped libraries. environment: bytes of the whole environment.
    seconds: of the import itself, from warm memory.
    """

    opens: int
    names: int
    nbytes: float
    environment: float
    seconds: float

    @classmethod
    def of(cls, result: Mapping, program: str = "torch") -> "Reads":
        """Of a result of benchmarks/start_up.py, for the row of `program`. Raises ValueError
        if it has no such row."""
        for row in result["rows"]:
            if row["import"] == program:
                return cls(row["opens"], row["names"], row["read MB"] * 1e6,
                           result["environment_bytes"], row["median"])  # fmt: skip
        raise ValueError(f"start_up: the result has no row for {program}")


def start_shared(nodes: int, reads: Reads, spec: ClusterSpec) -> float:
    """Seconds until every rank has imported from the shared file system.

    A node remembers names and contents, so its first rank asks for them; opening a file is asked
    of the server each time, by every rank. Source: close-to-open in
    https://man7.org/linux/man-pages/man5/nfs.5.html; Lustre does so, too.
    """
    requests = nodes * (reads.names + spec.ranks_per_node * reads.opens)
    return requests / spec.disk_requests + _deliver(nodes, reads.nbytes, spec) + reads.seconds


def start_from_image(nodes: int, reads: Reads, spec: ClusterSpec) -> float:
    """The same from one image file (squashfs, a container): what is needed, and no questions."""
    return nodes / spec.disk_requests + _deliver(nodes, reads.nbytes, spec) + reads.seconds


def start_from_copy(nodes: int, reads: Reads, spec: ClusterSpec) -> float:
    """The same after every node has copied the whole environment, as one file, to its own disk."""
    copied = _deliver(nodes, reads.environment, spec)
    return nodes / spec.disk_requests + copied + reads.seconds


def _deliver(nodes: int, nbytes: float, spec: ClusterSpec) -> float:
    """Seconds until every node has `nbytes`; one node cannot take all the bandwidth there is."""
    return nodes * nbytes / min(spec.disk_bandwidth, nodes * spec.node_bandwidth)
