"""``%%torchrun``: launches of the real torchrun, cold or from a fork server."""
