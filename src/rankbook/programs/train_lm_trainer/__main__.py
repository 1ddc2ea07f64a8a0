"""What ``python -m rankbook.programs.train_lm_trainer`` starts."""

from rankbook.programs.ending import end
from rankbook.programs.train_lm_trainer.run import main

main()
end()
