"""The gallery notebook runs and shows its stored output: the same kinds in every cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

GALLERY = Path(__file__).parents[2] / "docs" / "gallery.ipynb"


def shown(notebook: Any) -> list[list[str]]:
    """Returns the kinds of output of each code cell. Text in several pieces counts as one."""
    kinds = [
        [kind for output in cell.outputs for kind in sorted(output.get("data", [output.output_type]))]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    return [
        [kind for n, kind in enumerate(cell) if kind != "stream" or n == 0 or cell[n - 1] != kind]
        for cell in kinds
    ]


def test_the_gallery_runs(tmp_path: Path) -> None:
    client = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    stored = nbformat.read(GALLERY, as_version=4)
    notebook = nbformat.read(GALLERY, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    resources = {"metadata": {"path": str(tmp_path)}}
    # Raises an exception in a cell here, with the cell.
    client.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    assert shown(notebook) == shown(stored)
    assert sum(cells.count("image/png") for cells in shown(notebook)) == 5
    assert "True" in str(notebook.cells[-3].outputs)
