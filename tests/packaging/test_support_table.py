"""docs/support.md is true: hyperslab and its peers read what it says, and it misses no name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperslab as hs
import pytest

pytest.importorskip("zarrista", reason="zarrista is not installed: it needs Python 3.12")

PAGE = Path(__file__).parents[2] / "docs" / "support.md"
# Refused, because reading it runs code from the file.
OTHERS = {"pickle"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Returns what the script finds in a process where nothing is registered."""
    places = os.pathsep.join([str(Path(hs.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    script = str(Path(__file__).parents[1] / "lib" / "support_table.py")
    told = subprocess.run(
        [sys.executable, script, "--json"],
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        check=True,
    )
    return json.loads(told.stdout)


def stored() -> dict[str, dict[str, list[str]]]:
    """Returns the cells of each row of the page, by table and name."""
    tables: dict[str, dict[str, list[str]]] = {}
    title = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            title = line[3:]
        elif line.startswith("| ") and not line.startswith("| |"):
            name, *cells = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            tables.setdefault(title, {})[name.replace("\\|", "|")] = cells
    return tables


def test_each_row(found: dict[str, Any]) -> None:
    page = stored()
    # With other versions of the peers, only our column can be compared.
    width = None if all(version in PAGE.read_text() for version in found["versions"]) else 1
    assert {title: list(rows) for title, rows in page.items()} == {
        title: list(rows) for title, rows in found["rows"].items()
    }
    for title, rows in found["rows"].items():
        for name, cells in rows.items():
            assert cells[:width] == page[title][name][:width], name


def test_hyperslab_reads_all(found: dict[str, Any]) -> None:
    assert {cells[0] for rows in found["rows"].values() for cells in rows.values()} == {"yes"}


def test_no_name_of_peers_is_missing(found: dict[str, Any]) -> None:
    pages = PAGE.read_text() + (PAGE.parent / "formats.md").read_text()
    assert not {name for name in set(found["names"]) - OTHERS if f"{name}`" not in pages}
