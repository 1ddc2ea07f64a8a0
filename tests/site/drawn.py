"""When a page is ready to be looked at, as a condition in the browser."""

# Loaded, fonts there: nothing moves any more. Pictures and formulas are part of the page.
SETTLED = """() => document.readyState === 'complete' && document.fonts.status === 'loaded'"""
