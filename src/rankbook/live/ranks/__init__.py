"""``%%ranks``: a real kernel for every rank, and what happens when one of them fails."""
