// The search page: the index is read when there is a question. Summaries show the article, not the
// buttons around it; none from a file, where a page cannot read another.
"use strict";

Search.htmlToText = (html, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  page.querySelectorAll(".headerlink, script, style").forEach((element) => element.remove());
  const article = page.querySelector("article.bd-article");
  return ((anchor && article?.querySelector(anchor)) || article || page.body).textContent;
};
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
if (new URLSearchParams(location.search).get("q")) {
  Search.loadIndex(`${document.documentElement.dataset.content_root}searchindex.js`);
}
