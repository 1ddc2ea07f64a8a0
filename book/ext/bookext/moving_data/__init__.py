"""What a figure that moves has to be told: one module a figure, each with a `data()`."""
