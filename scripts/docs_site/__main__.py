"""``python -m scripts.docs_site``: builds the site, or writes only the generated files of the repository."""

from __future__ import annotations

import sys

from scripts.docs_site.agents import write_agents_page
from scripts.docs_site.algorithms import write_index
from scripts.docs_site.build import build
from scripts.docs_site.spec_reference import write_spec_reference

if __name__ == "__main__":
    write_spec_reference()
    write_index()
    write_agents_page()
    if sys.argv[1:] == ["pages"]:
        sys.exit(0)
    sys.exit(build())
