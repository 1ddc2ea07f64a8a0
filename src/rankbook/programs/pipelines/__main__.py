"""What ``python -m rankbook.programs.pipelines`` starts."""

from rankbook.programs.ending import end
from rankbook.programs.pipelines.run import main

print(main(), flush=True)
end()
