"""What ``python -m benchmarks.ladder`` starts."""

from benchmarks.ladder.run import main, status
from rankbook.programs.ending import end

end(status(main()))
