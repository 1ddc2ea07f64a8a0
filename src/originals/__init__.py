"""Programs and numbers of the six texts that the book follows, as far as they run today.

Only pages and tests use them; no part of the installed package.
"""
