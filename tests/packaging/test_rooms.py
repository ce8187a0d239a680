"""The pages for developers name files that exist, and list all rooms."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS, LAYERS = re.findall(r"^```text\n(.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)


def test_files_that_contributing_names_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    # Placeholders and patterns, such as `docs/PAGE.md`, do not match.
    folders = "benches|crates|docs|fuzz|python|scripts|tests"
    named = re.findall(rf"`((?:{folders})/[a-z0-9_./-]+)`", page)
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_architecture_lists_all_rooms() -> None:
    for block in ROOMS.strip().split("\n\n"):
        title, *lines = block.splitlines()
        folder = ROOT / title.split()[0]
        listed = [line.split()[0] for line in lines]
        rooms = {f"{path.name}/" for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}
        assert {name for name in listed if name.endswith("/")} == rooms, folder
        assert [name for name in listed if not (folder / name).exists()] == []
        assert len(listed) == len(set(listed))


def test_architecture_shows_the_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    assert LAYERS.splitlines() == contract["layers"]
