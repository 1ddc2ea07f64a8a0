"""Whether the book's data is where its programs look for it."""

import os
from collections.abc import Iterator

from rankbook.data.sources import FOLDER, SHA256, Absent, local_files
from rankbook.doctor.finding import Finding, Options, ok, problem, warning


def findings(options: Options) -> Iterator[Finding]:
    """Each folder of $RANKBOOK_DATA: there, whole, and the files that the book was tested with."""
    if not os.environ.get(FOLDER):
        says = f"{FOLDER} is not set: programs try the Hugging Face hub, then the small text inside"
        yield warning("data", f"{says} this package; name a folder with --data.")
        return
    said = set()  # what is wrong with the folder that holds them is wrong once
    for folder in dict.fromkeys(name.split("/")[0] for name in SHA256):
        if (finding := one(folder)).says not in said:
            said.add(finding.says)
            yield finding


def one(folder: str) -> Finding:
    """One folder of the data, read and checked as the programs do."""
    try:
        files, _ = local_files(folder)
    except Absent as reason:
        says = f"{reason}: programs will try the hub, then do with less; copy it there."
        return warning("data", says, folder)
    except (OSError, ValueError) as error:
        return problem("data", f"{str(error).rstrip('.')}.", folder)
    return ok("data", f"{folder}: {len(files)} files, checked.", folder)
