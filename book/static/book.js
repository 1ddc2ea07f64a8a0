// The language switch, diagrams, and two repairs of the search page. No library of its own.

// ---- The switch: remember the language, land at the same place of the other page.
const PLACES = '[id^="at-"], [id^="term-"], article dt[id], .symptoms dt [id]';

function placeOnScreen() {
  const above = [...document.querySelectorAll(PLACES)].filter(
    (element) => element.getBoundingClientRect().top < innerHeight / 3);
  return scrollY < 50 || !above.length ? "" : above.at(-1).id;
}

document.querySelectorAll(".english").forEach((block) => { block.lang = "en"; }); // docstrings

document.querySelectorAll("a.lang-switch").forEach((link) =>
  link.addEventListener("click", () => {
    try { localStorage.setItem("book-language", link.dataset.lang); } catch { /* no memory */ }
    link.hash = placeOnScreen();
    link.search = location.search; // a search goes on in the other language
  }));

// ---- Diagrams: ```mermaid fences, drawn by the vendored library, again when the colours change.
const drawings = [...document.querySelectorAll(".highlight-mermaid")];

async function draw(sources) {
  const dark = document.documentElement.dataset.theme === "dark";
  mermaid.initialize({
    startOnLoad: false, securityLevel: "strict", theme: dark ? "dark" : "neutral",
    fontFamily: getComputedStyle(document.body).fontFamily,
    themeVariables: dark ? { edgeLabelBackground: "#1d2229" } : {},
    flowchart: { nodeSpacing: 30, rankSpacing: 35, padding: 10 },
  });
  for (const [index, box] of drawings.entries()) {
    const { svg } = await mermaid.render(`diagram-${index}-${dark ? "dark" : "light"}`, sources[index]);
    box.innerHTML = svg; // its accTitle and accDescr name it to screen readers
    const drawing = box.firstElementChild;
    drawing.setAttribute("role", "img");
    // On a phone it shrinks as far as it can be read, then it scrolls in its own frame.
    drawing.style.minWidth = `${0.57 * drawing.viewBox.baseVal.width}px`;
    box.classList.add("drawn");
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; // the arrow keys scroll it, too
  }
}

if (drawings.length) {
  const sources = drawings.map((box) => box.textContent);
  const script = document.createElement("script");
  script.src = `${document.documentElement.dataset.content_root}_static/vendor/mermaid/mermaid.min.js`;
  script.onload = () => {
    let last = draw(sources);
    new MutationObserver(() => { last = last.then(() => draw(sources)); })
      .observe(document.documentElement, { attributeFilter: ["data-theme"] });
  };
  document.head.append(script);
}

// ---- The search page: summaries show the article, not the buttons around it; none from a file,
// where a page cannot read another.
if (typeof Search !== "undefined") {
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(".headerlink, script, style").forEach((element) => element.remove());
    const article = page.querySelector("article.bd-article");
    return ((anchor && article?.querySelector(anchor)) || article || page.body).textContent;
  };
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

// ---- Buttons that unfold: the theme names them in English; the visible words are the better name.
addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("details.hide > summary").forEach((summary) => summary.removeAttribute("aria-label"));
  document.querySelectorAll("button.toggle-button").forEach((button) => button.setAttribute("aria-label", toggleHintShow));
});
