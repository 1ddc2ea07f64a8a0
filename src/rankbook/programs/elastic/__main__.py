"""What ``python -m rankbook.programs.elastic`` starts."""

from rankbook.programs.elastic.run import main
from rankbook.programs.ending import end

main()
end()
