"""What ``python -m rankbook.programs.train_lm`` starts."""

from rankbook.programs.ending import end
from rankbook.programs.train_lm.run import main

main()
end()
