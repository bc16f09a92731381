"""Sphinx configuration of the documentation site."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rlrun.engine.checkpoint.manifest import rlrun_version

project = "rlrun"
author = "the rlrun developers"
version = release = rlrun_version()
html_title = f"rlrun {release}"
language = "en"
smartquotes = False  # they would turn the two hyphens of an option into a dash

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "scripts.docs_site.extension"]
templates_path = ["theme/templates"]
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"  # browsers render MathML without downloading anything
myst_links_external_new_tab = False

html_theme = "furo"
html_static_path = ["theme/static"]
html_css_files = ["site.css"]
html_js_files = ["menus.js"]
html_favicon = "theme/static/icon.svg"
html_copy_source = False
html_show_search_summary = False  # it loads pages with fetch, which browsers block for local files
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}
pygments_style = "default"
pygments_dark_style = "native"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
