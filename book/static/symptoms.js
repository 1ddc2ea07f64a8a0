// Which symptom a pasted text is: as rankbook.symptoms.matching does it, on the search page and on
// the page Symptoms. SYMPTOMS, beside this script in these pages, holds patterns and words.

function symptomOf(pasted) {
  const text = pasted.replace(/\x1b\[[\d;]*m/g, "").replace(/^\[(?:rank|default)?\d+\]:? ?/gm, "")
    .split(/\s+/).filter(Boolean).join(" ");
  let best = null;
  for (const entry of SYMPTOMS.entries) {
    const found = entry.fixed.every((part) => text.includes(part)) // quick, in a long text
      && text.match(new RegExp(entry.pattern));
    if (!found) continue;
    const length = found[0].length; // the longest match is the most specific
    const better = !best || (best.entry.late && !entry.late)
      || (best.entry.late === entry.late && length > best.length);
    if (better) best = { entry, length };
  }
  return best?.entry;
}

function tellSymptom(box, pasted) {
  const entry = symptomOf(pasted);
  box.replaceChildren();
  if (!pasted.trim()) return;
  if (!entry) { box.textContent = SYMPTOMS.words.none; return; }
  const link = document.createElement("a"), code = document.createElement("code");
  link.href = `${document.documentElement.dataset.content_root}${SYMPTOMS.page}#${entry.id}`;
  code.textContent = entry.message;
  link.append(code);
  box.append(`${SYMPTOMS.words.found} `, link);
}

addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  const box = document.createElement("p");
  box.className = "symptom-found";
  box.setAttribute("role", "status");
  if (results) { // the search page: say nothing where there is no entry
    const query = new URLSearchParams(location.search).get("q") ?? "";
    results.before(box);
    if (symptomOf(query)) tellSymptom(box, query);
    return;
  }
  const label = document.createElement("label"), area = document.createElement("textarea");
  label.className = "symptom-look-up";
  area.rows = 4;
  area.spellcheck = false;
  area.addEventListener("input", () => tellSymptom(box, area.value));
  label.append(SYMPTOMS.words.paste, area);
  document.querySelector("article .symptoms")?.closest("section").before(label, box);
});
