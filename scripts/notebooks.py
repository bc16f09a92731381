"""Runs the notebooks in docs/notebooks in one process, and writes their outputs into the files.

    python -m scripts.notebooks    # a few seconds; needs nbclient and ipykernel, which the `dev` extra includes

The outputs are stored in the files so that readers and the documentation site see them without running anything. A test
also runs the notebooks, and compares the text of their outputs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"

OPTIONS = ["--HistoryManager.enabled=False", "--IPKernelApp.log_level=ERROR"]
"""Options of the kernel: cells are not recorded in the history in the user's home folder."""


def executed(paths: Sequence[Path]) -> list[NotebookNode]:
    """Runs notebooks from top to bottom in one kernel, clearing its names after each; returns them with outputs.

    Args:
        paths: The notebook files.

    Raises:
        CellExecutionError: A cell raised an exception.
    """
    return asyncio.run(_executed([nbformat.read(path, as_version=4) for path in paths]))


async def _executed(notebooks: list[NotebookNode]) -> list[NotebookNode]:
    # On a busy machine, the output of a cell may arrive late and in several messages.
    patience = {"startup_timeout": 300, "timeout": 300, "iopub_timeout": 60, "raise_on_iopub_timeout": True}
    client = NotebookClient(
        notebooks[0], extra_arguments=OPTIONS, coalesce_streams=True, record_timing=False, **patience
    )
    async with client.async_setup_kernel(cwd=str(FOLDER)):
        assert client.kc is not None
        for client.nb in notebooks:
            client.reset_execution_trackers()
            for index, cell in enumerate(client.nb.cells):
                await client.async_execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
            await client.kc.execute("%reset -f", reply=True)
    return notebooks


if __name__ == "__main__":
    files = sorted(FOLDER.glob("*.ipynb"))
    for file, notebook in zip(files, executed(files), strict=True):
        nbformat.write(notebook, file)
