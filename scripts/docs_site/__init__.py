"""The documentation site: the Markdown of this repository as HTML, with pages made from the code.

    make docs                             # the whole site, at build/docs/html/index.html
    python -m scripts.docs_site           # the same
    python -m scripts.docs_site pages     # only AGENTS.md and docs/spec_reference.md, which the whole build writes too

Nothing of it needs the network. `contents` gathers all pages as Markdown: those of docs/ (`written`), with
its notebooks (`notebook_pages`), and those made from the code (`commands`, `metrics`, `api`, `shipped_specs`,
`shown_files`, `gallery`). Sphinx makes HTML of them, and takes each warning for an error. The order of
docs/README.md is that of the site: a page that it does not lead to is an error. `keywords.yaml` has words that readers
search for and pages do not use.
"""
