"""How long until torch is imported everywhere: many small files, asked for by every rank.

The names and bytes of one import are measured (benchmarks/start_up.py). What follows for many
nodes is arithmetic; `start_up_errors` holds it against starts on a file server that was made slow
by a known measure (benchmarks/start_up_nodes.py). That shared file systems answer slower than they
deliver is well known: https://docs.nersc.gov/development/languages/python/scaling-up/.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rankbook.predict.cost_model.cluster_spec import ClusterSpec

READ_AHEAD = 128 * 1024  # bytes that Linux asks for at once, unless a file system says else
OPENING = 2  # questions: to open, and to close


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
                return cls._of_row(row, result["environment_bytes"])
        raise ValueError(f"start_up: the result has no row for {program}")

    @classmethod
    def _of_row(cls, row: Mapping, environment: float) -> "Reads":
        return cls(row["opens"], row["names"], row["read MB"] * 1e6, environment, row["median"])


def questions(nodes: int, reads: Reads, ranks_per_node: int) -> int:
    """What the server of shared files is asked, all nodes together, reads apart.

    A node remembers names and contents, so its first rank asks for them; opening and closing a file
    is asked of the server each time, by every rank. Source: close-to-open in
    https://man7.org/linux/man-pages/man5/nfs.5.html.
    """
    return nodes * (reads.names + ranks_per_node * OPENING * reads.opens)


def start_shared(nodes: int, reads: Reads, spec: ClusterSpec) -> float:
    """Seconds until every rank has imported from the shared file system.

    Either the server is busy to the end, or a node's first rank is, which waits for one answer
    before it asks again. Source of the two bounds: Denning and Buzen,
    https://doi.org/10.1145/356733.356735
    """
    busy = questions(nodes, reads, spec.ranks_per_node) / spec.disk_requests
    waiting = questions(1, reads, 1) * spec.disk_latency
    return max(busy, waiting) + start_from_image(nodes, reads, spec)


def start_from_image(nodes: int, reads: Reads, spec: ClusterSpec) -> float:
    """The same from one image file (squashfs, a container): what is needed, and no questions."""
    pieces = reads.nbytes / READ_AHEAD * spec.disk_latency
    return pieces + _deliver(nodes, reads.nbytes, spec) + reads.seconds


def start_from_copy(nodes: int, reads: Reads, spec: ClusterSpec) -> float:
    """The same after every node has copied the whole environment, as one file, to its own disk."""
    return spec.disk_latency + _deliver(nodes, reads.environment, spec) + reads.seconds


def _deliver(nodes: int, nbytes: float, spec: ClusterSpec) -> float:
    """Seconds until every node has `nbytes`; one node cannot take all the bandwidth there is."""
    return nodes * nbytes / min(spec.disk_bandwidth, nodes * spec.node_bandwidth)


def start_up_errors(result: Mapping) -> list[dict]:
    """The three ways against a result of benchmarks/start_up_nodes.py, a row a case: way, nodes,
    ranks, measured and computed seconds, error (computed over measured, less one); where files
    are shared, also asked and foretold, the questions. All ranks share the machine's cores.
    """
    one = Reads._of_row(result["one_process"], result["environment_bytes"])
    alone, rows = result["one_at_a_time"], []
    for row in result["rows"]:
        nodes, ranks = row["nodes"], row["ranks"]
        speed = {"disk_bandwidth": result["speed"]["bandwidth"]}
        speed |= {"disk_requests": result["speed"]["requests"], "disk_latency": alone["question"]}
        spec = ClusterSpec(ranks_per_node=ranks, node_bandwidth=alone["bandwidth"], **speed)
        crowd = max(1.0, nodes * ranks / result["cores"])
        computed = WAYS[row["way"]](nodes, replace(one, seconds=one.seconds * crowd), spec)
        found = {"way": row["way"], "nodes": nodes, "ranks": ranks, "measured": row["median"]}
        found |= {"computed": computed, "error": computed / row["median"] - 1}
        if row["way"] == "shared":
            found |= {"asked": row["questions"], "foretold": questions(nodes, one, ranks)}
        rows.append(found)
    return rows


WAYS = {"shared": start_shared, "copied": start_from_copy, "image": start_from_image}
