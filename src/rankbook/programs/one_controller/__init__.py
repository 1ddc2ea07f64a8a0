"""The same all_reduce and the same faults under Monarch, one controller for all ranks.

python -m rankbook.programs.one_controller --fault raises --way careful
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.programs.one_controller.faults import FAULTS, WAYS, verdict
    from rankbook.programs.one_controller.reading import (
        costs_table,
        faults_table,
        format_row,
        written,
    )
    from rankbook.programs.one_controller.running import is_here, main, try_faults
    from rankbook.programs.one_controller.sources import code_lines, source

__getattr__, __dir__ = attach(__name__, __file__)
