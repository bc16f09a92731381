"""``python -m scripts.docs_site``: build the site, or write AGENTS.md alone."""

from __future__ import annotations

import sys

from scripts.docs_site.agents import write_agents_page
from scripts.docs_site.build import build

if __name__ == "__main__":
    write_agents_page()
    if sys.argv[1:] == ["agents"]:
        sys.exit(0)
    sys.exit(build())
