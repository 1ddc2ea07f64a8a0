"""What ``python -m rankbook.programs.uneven`` starts."""

from rankbook.programs.ending import end
from rankbook.programs.uneven.run import main

main()
end()
