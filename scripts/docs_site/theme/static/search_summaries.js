// Adds to each hit of a search the first sentence of its page. Sphinx would fetch the page for it, which browsers
// refuse where the site is opened from files. A page that was found by a keyword and by its text is listed once, and its
// link leads to its beginning instead of to the keyword, which is below the heading.
document.addEventListener("DOMContentLoaded", () => {
  const seen = new Set();
  const addSummary = (item) => {
    const link = item.querySelector("a");
    if (link && seen.has(link.textContent)) return item.remove();
    seen.add(link && link.textContent);
    if (link) link.href = link.getAttribute("href").replace(/#index-0$/, "");
    const page = link && link.getAttribute("href").split("#")[0].replace(/\.html$/, "");
    if (!pageSummaries[page]) return;
    const summary = document.createElement("p");
    summary.className = "summary";
    summary.textContent = pageSummaries[page];
    item.appendChild(summary);
  };
  const added = (changes) => changes.flatMap((change) => [...change.addedNodes]);
  new MutationObserver((changes) => added(changes).filter((node) => node.tagName === "LI").forEach(addSummary)).observe(
    document.getElementById("search-results"), { childList: true, subtree: true });
});
