"""What becomes of a job on GPUs when something goes wrong: derived from torch's source.

The facts stand in ``nccl_faults.toml``, each with the functions that it was read from.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FACTS = Path(__file__).with_name("nccl_faults.toml")


@dataclass(frozen=True)
class Wait:
    """Something that waits, by default so many `seconds`, as long as `setting` says.

    factor: how many times the setting's value it waits. who: waits.
    """

    name: str
    seconds: float
    setting: str
    who: str
    source: tuple[str, ...]
    factor: int = 1


@dataclass(frozen=True)
class NcclFault:
    """One fault: who hangs, who ends the ranks that hang and how, and what torchrun does then.

    waits: by name, one after the other, until no worker of the old world is left. recorded: what
    ``benchmarks/elastic_times.py`` calls the fault, or "". code: the workers' exit code.
    """

    fault: str
    recorded: str
    hangs: str
    ends: str
    waits: tuple[str, ...]
    code: str
    then: str
    source: tuple[str, ...]

    def seconds(self, **changed: float) -> float:
        """How long the old world's workers last: with torch's defaults, but for those `changed`.

        changed: seconds, by the name of a wait. Raises ValueError for a name that is none.
        """
        known = nccl_waits()
        if unknown := changed.keys() - known.keys():
            raise ValueError(f"no wait is called {sorted(unknown)}; there are {sorted(known)}")
        return sum(changed.get(name, known[name].seconds) for name in self.waits)


@cache
def _facts() -> dict:
    return tomllib.loads(FACTS.read_text("utf-8"))


def nccl_waits() -> dict[str, Wait]:
    """What waits in a job on GPUs, by name."""
    waits = _facts()["waits"]
    return {
        name: Wait(**fields | {"name": name, "source": tuple(fields["source"])})
        for name, fields in waits.items()
    }


def nccl_faults() -> list[NcclFault]:
    """The faults of a job on GPUs."""
    return [
        NcclFault(**each | {key: tuple(each[key]) for key in ("waits", "source")})
        for each in _facts()["faults"]
    ]
