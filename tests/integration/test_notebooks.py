"""The notebooks of docs/notebooks show the outputs of their cells."""

from __future__ import annotations

import nbformat

from scripts.docs_site.notebook_pages import output_data
from scripts.notebooks import FOLDER, executed


def outputs(notebook: nbformat.NotebookNode) -> list[tuple[str, list[dict[str, str]]]]:
    """Code and outputs of each cell, without the bytes of pictures, which depend on fonts."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [(cell.source, [output_data(output) | {"image/png": ""} for output in cell.outputs]) for cell in cells]


def test_outputs_stored_in_the_notebooks_match_those_of_a_new_run() -> None:
    files = sorted(FOLDER.glob("*.ipynb"))
    assert len(files) == 4
    for file, run in zip(files, executed(files), strict=True):
        assert outputs(nbformat.read(file, as_version=4)) == outputs(run), f"{file.name}: python -m scripts.notebooks"
