"""Converts notebooks to pages: text, code and outputs as Markdown, with pictures for the HTML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.docs_site.page import raw_html


def notebook_page(file: Path) -> tuple[str, dict[str, str]]:
    """Returns a notebook's Markdown, and the HTML that replaces the placeholders of its pictures.

    The outputs come from the file; nothing is executed.
    """
    parts: list[str] = []
    pictures: dict[str, str] = {}
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append("".join(cell["source"]))
            continue
        parts.append(fenced("python", "".join(cell["source"])))
        for output in cell["outputs"]:
            data = output_data(output)
            if "image/png" not in data:
                parts.append(fenced("text", data["text/plain"]))
                continue
            parts.append(f"*Picture {len(pictures) + 1}, which the notebook shows*")
            source = f"data:image/png;base64,{''.join(data['image/png'].split())}"
            pictures[parts[-1]] = raw_html(f"<figure><img src='{source}' alt='Output of the cell above'></figure>")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n", pictures


def output_data(output: dict[str, Any]) -> dict[str, str]:
    """Contents of an output by media type; printed output counts as plain text."""
    data = output["data"] if "data" in output else {"text/plain": output["text"]}
    return {kind: "".join(content) for kind, content in data.items()}


def fenced(language: str, text: str) -> str:
    """Code block."""
    return f"```{language}\n{text.rstrip()}\n```\n"
