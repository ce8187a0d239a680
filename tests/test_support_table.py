"""docs/support.md is true: hyperslab and its peers read what it says, and no name of theirs is missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import zarr.dtype
import zarr.registry
from numcodecs.registry import codec_registry

table: Any = pytest.importorskip("support_table", reason="zarrista is not installed: it needs Python 3.12")

PAGE = Path(__file__).parents[1] / "docs" / "support.md"
# Refused: reading it runs code that is in the file.
OTHERS = {"pickle"}


def stored() -> dict[str, list[str]]:
    """The page: what is in each row, by its name and table."""
    rows, title = {}, ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            title = line[3:]
        elif line.startswith("| ") and not line.startswith("| |"):
            name, *cells = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            rows[f"{title}: {name}"] = cells
    return rows


def versions() -> str:
    return ", ".join(f"{name} {table.version(name)}" for name in table.PEERS)


@pytest.mark.parametrize("title", table.TABLES)
def test_each_row(title: str) -> None:
    written = stored()
    # With other versions of the peers only our column can be compared.
    readers = list(table.READERS) if versions() in PAGE.read_text() else ["hyperslab"]
    names = []
    for row in table.TABLES[title]():
        names.append(f"{title}: {row.name.replace('|', table.BAR)}")
        assert table.verdicts(row, readers) == written[names[-1]][: len(readers)], row.name
    assert names == [name for name in written if name.startswith(f"{title}: ")]


def test_hyperslab_reads_all() -> None:
    assert {cells[0] for cells in stored().values()} == {"yes"}


def test_no_name_of_peers_is_missing() -> None:
    pages = PAGE.read_text() + (PAGE.parent / "formats.md").read_text()
    names = {*codec_registry, *zarr.dtype.data_type_registry.contents, *zarr.registry._codec_registries}
    assert not {name for name in names - set(OTHERS) if f"{name}`" not in pages}
