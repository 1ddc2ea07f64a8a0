"""What Python says of errors and warnings, with the cell's lines and without machine paths."""

import re
import sys
import sysconfig
import warnings


def readable(text: str, cell: str) -> str:
    """A traceback with ``Cell line 4`` for the cell's frames, and without machine paths."""
    text = re.sub(rf'File "{re.escape(cell)}", line (\d+)(, in <module>)?', r"Cell line \1", text)
    for root in _roots():
        text = text.replace(f'File "{root}', 'File "')
    return text.rstrip()


def show_readable_warnings(cell: str) -> None:
    """Let this process's warnings name the cell's line, or a module, and no machine path.

    cell: the cell's file, or the folder that cells are in.
    """

    def formatted(message, category, filename, lineno, line=None) -> str:
        root = next((root for root in _roots() if filename.startswith(root)), "")
        place = filename.removeprefix(root) + f", line {lineno}"
        place = f"Cell line {lineno}" if filename.startswith(cell) else place
        return f"{place}: {category.__name__}: {message}\n"

    warnings.formatwarning = formatted


def _roots() -> list[str]:
    """The folders that modules come from, the innermost first."""
    paths = sysconfig.get_paths()
    roots = {paths["purelib"], paths["platlib"], paths["stdlib"], *sys.path}
    return sorted(
        (f"{root.rstrip('/')}/" for root in roots if len(root) > 1), key=len, reverse=True
    )
