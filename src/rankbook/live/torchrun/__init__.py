"""``%%torchrun``: launches of the real torchrun, cold or from a warm process."""
