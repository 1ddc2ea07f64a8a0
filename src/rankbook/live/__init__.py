"""The engine room of the magics: a rank per real kernel, and launches of the real torchrun."""
