"""The page of promises names tests that exist, and fuzz targets are complete."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
NAME = re.compile(r"`((?:crates/)?[a-z0-9_/]+\.(?:py|rs))::([a-z0-9_]+)`")


def test_named_tests_exist() -> None:
    named = NAME.findall(PAGE)
    assert len(named) > 60
    for file, test in named:
        path = ROOT / (file if file.startswith("crates/") else f"tests/{file}")
        assert path.exists(), file
        kind = "fn" if file.endswith(".rs") else "def"
        assert re.search(rf"^\s*(?:async )?{kind} {test}\(", path.read_text(), re.MULTILINE), (
            f"{file}::{test}"
        )


def test_each_promise_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| promise ")]
    promises = [row for row in rows if row.count("|") == 4 and not row.startswith("| target ")]
    assert len(promises) > 60
    assert [row for row in promises if not NAME.search(row)] == []
    assert [row for row in promises if row.split("|")[3].strip() == ""] == []


def test_fuzz_targets_are_complete() -> None:
    settings = tomllib.loads((ROOT / "fuzz" / "Cargo.toml").read_text())
    named = {each["name"]: each["path"] for each in settings["bin"]}
    files = {path.stem for path in (ROOT / "fuzz" / "fuzz_targets").glob("*.rs")}
    assert files == set(named)
    assert all(path == f"fuzz_targets/{name}.rs" for name, path in named.items())
    # `crates/codec/tests/hostile.rs` tests that each decoder is in one of these.
    decoders = (ROOT / "crates/codec/tests/hostile/decoders.rs").read_text()
    (targets,) = re.findall(r"^pub const TARGETS: .*? = &\[\n(.*?)^\];", decoders, re.MULTILINE | re.DOTALL)
    words = set(re.findall(r'^ *\(?"([a-z0-9]+)"(?:, &|,$)', targets, re.MULTILINE)) | set(
        re.findall(r'\("([a-z0-9]+)", &', targets)
    )
    assert {name.removeprefix("codec_") for name in named if name.startswith("codec_")} <= words
    # Each target has seeds, or words to start from.
    seeds = (ROOT / "scripts" / "fuzz_seeds.py").read_text()
    others = {name for name in named if not name.startswith("codec_")}
    assert {name for name in others if f'"{name}"' not in seeds} == set()
