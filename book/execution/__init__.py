"""How a chapter is executed, for the book and for nbmake: warm, watched, leaving nothing behind.

    client -- server (has torch loaded) -- page -- kernel -- fork servers of ranks and launches

Each is the child of the one before and ends with it, however that ends.
"""
