"""What ``python -m rankbook.programs.wrappings`` starts."""

from rankbook.programs.ending import end
from rankbook.programs.wrappings.run import main

main()
end()
