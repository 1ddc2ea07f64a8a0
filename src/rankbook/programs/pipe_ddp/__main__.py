"""What ``python -m rankbook.programs.pipe_ddp`` starts."""

from rankbook.programs.ending import end
from rankbook.programs.pipe_ddp.run import main

main()
end()
