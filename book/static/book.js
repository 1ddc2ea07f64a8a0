// The language switch, and formulas on the clipboard. No library of its own.

// ---- The switch: remember the language, land at the same place of the other page.
const PLACES = '[id^="at-"], [id^="term-"], article dt[id], .symptoms dt [id]';

function placeOnScreen() {
  const above = [...document.querySelectorAll(PLACES)].filter(
    (element) => element.getBoundingClientRect().top < innerHeight / 3);
  return scrollY < 50 || !above.length ? "" : above.at(-1).id;
}

document.querySelectorAll(".english").forEach((block) => { block.lang = "en"; }); // docstrings

// The reference has hundreds of definitions: their links to themselves are made here.
const linkTitle = document.querySelector("h1 .headerlink")?.title ?? "";
document.querySelectorAll("dl.py dt[id]").forEach((definition) => {
  const link = document.createElement("a");
  Object.assign(link, { className: "headerlink", href: `#${definition.id}`, title: linkTitle, textContent: "#" });
  definition.append(link);
});

document.querySelectorAll("a.lang-switch").forEach((link) =>
  link.addEventListener("click", () => {
    try { localStorage.setItem("book-language", link.dataset.lang); } catch { /* no memory */ }
    link.hash = placeOnScreen();
    link.search = location.search; // a search goes on in the other language
  }));

// ---- A copied sentence has its formulas as they were written, in TeX.
document.addEventListener("copy", (event) => {
  const selection = getSelection();
  if (!selection.rangeCount || event.defaultPrevented) return;
  const part = selection.getRangeAt(0).cloneContents();
  const formulas = part.querySelectorAll("math");
  if (!formulas.length) return; // the browser copies better
  formulas.forEach((formula) => {
    const tex = formula.querySelector("annotation")?.textContent; // of a formula in parts the first has it
    const sign = formula.hasAttribute("displaystyle") ? "$$" : "$";
    formula.replaceWith(tex ? sign + tex + sign : "");
  });
  event.clipboardData.setData("text/plain", part.textContent);
  event.preventDefault();
});

// ---- Buttons that unfold: the theme names them in English; the visible words are the better name.
addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("button.toggle-button").forEach((button) => button.setAttribute("aria-label", toggleHintShow));
});
