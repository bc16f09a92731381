"""Builds the documentation site: this repository's Markdown as HTML, and pages generated from the code.

    make docs                             # the whole site, at build/docs/html/index.html
    python -m scripts.docs_site           # the same
    python -m scripts.docs_site pages     # writes only the repository's generated files: AGENTS.md and two in docs/

The build needs no network. `contents` gathers all pages as Markdown: the pages of docs/ (`written`), its notebooks
(`notebook_pages`), and the pages generated from the code (`commands`, `settings`, `api`, `shown_files`, `gallery`).
Sphinx converts them to HTML and treats every warning as an error. The site has the order of docs/README.md; a page that
docs/README.md does not lead to is an error. `keywords.yaml` contains words that readers search for but that the pages
do not use.
"""
