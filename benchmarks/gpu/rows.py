"""Rows of a result file that are written one by one, and kept by whoever goes on later."""

from collections.abc import Callable

import torch

from benchmarks import record


class Rows:
    """The file ``book/results/NAME.json``: rows by what they are called, in the order of adding."""

    def __init__(self, name: str, what: str, device: torch.device):
        self.name, self.what, self.device = name, what, device
        known = record.recorded(name).get("rows", [])
        self.rows = {row["row"]: row for row in known if "error" not in row}

    def measure(self, row: str, work: Callable[[], dict]) -> dict:
        """The row called so: as it was measured before, or as `work` measures it now.

        What `work` raises is the row's `error`, and the next ones go on; a LookupError says what
        the machine lacks, and the row is `skipped`.
        """
        if row in self.rows:
            print(f"{row}: measured before")
            return self.rows[row]
        try:
            found = work()
        except LookupError as lacking:
            found = {"skipped": str(lacking.args[0])}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        self.rows[row] = {"row": row, **found}
        kind = "GPU" if self.device.type == "cuda" else "CPU"
        record.write(
            self.name, self.what, list(self.rows.values()), libraries=("torch",), kind=kind
        )
        print(", ".join(f"{key} {value}" for key, value in self.rows[row].items()), flush=True)
        return self.rows[row]

    def failed(self) -> int:
        """What the program ends with: 1 if a row has failed."""
        return int(any("error" in row for row in self.rows.values()))
