"""`rankbook autopsy DIR`: its options, and what it prints."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from rankbook.autopsy.judging import judge
from rankbook.autopsy.page import as_json, as_text
from rankbook.autopsy.picture import as_svg
from rankbook.autopsy.reading import read
from rankbook.core.atomic import write_text_atomic


def add_command(commands: argparse._SubParsersAction) -> Callable[[argparse.Namespace], int]:
    """Add the command to an argparse parser's `commands`; return what runs it, for a status."""
    parser = commands.add_parser(
        "autopsy",
        help="say why a job hangs or failed, from what its ranks recorded",
        description="Say why a job hangs or failed: which rank is missing, which calls differ, "
        "and the last line of each rank. Status: 0, 1 with findings, 2 without records.",
    )
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the folder that RANKBOOK_AUTOPSY named")
    add("--json", action="store_true", help="one JSON document instead of text")
    add("--picture", type=Path, metavar="FILE", help="draw the last calls of all ranks, as SVG")
    parser.set_defaults(run=run)
    return run


def run(options: argparse.Namespace) -> int:
    """Print the autopsy; return 0 where nothing is wrong, 1 with findings, 2 with no records."""
    try:
        job = read(options.directory)
        findings = judge(job)
        if options.picture is not None:
            write_text_atomic(options.picture, as_svg(job, findings))
    except (ValueError, OSError) as error:
        print(f"rankbook autopsy: {error}", file=sys.stderr)
        return 2
    print((as_json if options.json else as_text)(job, findings), flush=True)
    return int(bool(findings))
