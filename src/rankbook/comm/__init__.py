"""What ranks send each other: collectives with gradients, and how many bytes they send."""
