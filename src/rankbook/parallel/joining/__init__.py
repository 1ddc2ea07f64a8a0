"""For torch's Join: a running mean that takes part in it, and a recorder of what it does."""
