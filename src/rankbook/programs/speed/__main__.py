"""What ``python -m rankbook.programs.speed`` starts."""

from rankbook.programs.ending import end
from rankbook.programs.speed.run import main, status

end(status(main()))
