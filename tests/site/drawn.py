"""When a page is ready to be looked at, as conditions in the browser."""

DIAGRAMS_DRAWN = """() => [...document.querySelectorAll('.highlight-mermaid')]
    .every((box) => box.classList.contains('drawn'))"""
# Loaded, diagrams and formulas drawn, fonts there: nothing moves any more.
SETTLED = f"""() => document.readyState === 'complete' && ({DIAGRAMS_DRAWN})()
    && [...document.querySelectorAll('article .math')].every(
        (formula) => formula.querySelector('mjx-container'))
    && document.fonts.status === 'loaded'"""
