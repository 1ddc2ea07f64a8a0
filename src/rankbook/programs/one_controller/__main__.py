"""What ``python -m rankbook.programs.one_controller`` starts."""

from rankbook.programs.ending import end
from rankbook.programs.one_controller.running import main

main()
end()
