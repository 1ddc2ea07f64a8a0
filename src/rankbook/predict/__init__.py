"""What a training will take, before it runs: memory, time, a layout, and what many nodes change."""
