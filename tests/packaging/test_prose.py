"""`scripts/check_prose.py` finds the sentences that it says, in each kind of file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
LONG = " ".join(["Words"] * 31) + "."


@pytest.fixture
def prose(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.delitem(sys.modules, "check_prose", raising=False)
    import check_prose

    return check_prose


def found(prose: ModuleType, path: Path, text: str) -> list[tuple[int, str]]:
    """The sentences of a file with this text, with their lines."""
    path.write_text(text)
    return [(sentence.first, sentence.text) for sentence in prose.sentences(path)]


@pytest.mark.parametrize(
    ("text", "habits"),
    [
        ("The chunk is read once.", []),
        ("Of the chunks only one is read.", ["opens"]),
        ("What was read stays.", ["opens", "holds"]),
        ("Whether it fits is not known.", ["opens"]),
        ("Whether to replace an array.", []),
        ("However many there are.", ["opens"]),
        ("However, there is one.", []),
        ("Where is the file?", []),
        ("(Such files are refused.)", ["opens"]),
        ("So far all files are read.", []),
        ("Nothing is read, lest it changes.", ["holds"]),
        ("Its names are THOSE OF zarr-python.", ["holds"]),
        ("It is the least of all.", []),
        (LONG, ["long"]),
        (" ".join(["Words"] * 30) + ".", []),
        ("Neither of these is long: " + LONG.lower(), ["opens", "long"]),
    ],
)
def test_habits(prose: ModuleType, text: str, habits: list[str]) -> None:
    assert [*prose.Sentence(1, 1, text).habits()] == habits


def test_python(prose: ModuleType, tmp_path: Path) -> None:
    text = '''#!/usr/bin/env python
"""Read all chunks.

Parameters
----------
count : int, default 3
    Number of chunks. Must not
    be negative.

Examples
--------
>>> of = "Of these lines nothing is prose."
>>> print(of)
Of these lines nothing is prose.

As in this block::

    Of these lines neither.
"""

TEXT = """Of a string that is no docstring nothing is prose."""
LIMIT = 3
"""A number with a docstring."""


def read() -> None:
    # The comment of a function. Its `code
    # is hidden`, as is "of which" here.
    pass  # noqa: F401

'''
    assert found(prose, tmp_path / "a.py", text) == [
        (2, "Read all chunks."),
        (7, "Number of chunks."),
        (7, "Must not be negative."),
        (16, "As in this block::"),
        (23, "A number with a docstring."),
        (27, "The comment of a function."),
        (27, "Its X, as is X here."),
    ]


def test_rust(prose: ModuleType, tmp_path: Path) -> None:
    text = """//! The module reads chunks.
//! * First item of a list
//!   that goes on here.
//! * Second item of it

/// The function returns [`Chunk`](crate::Chunk) or fails.
///
/// ```
/// // Of an example nothing is prose.
/// ```
fn read() {
    let text = "// Of a string"; // Comments behind code do not count.
    // SAFETY: the pointer is valid.
    // The second comment line.
}
"""
    assert found(prose, tmp_path / "a.rs", text) == [
        (1, "The module reads chunks."),
        (2, "First item of a list that goes on here."),
        (4, "Second item of it"),
        (6, "The function returns X or fails."),
        (13, "the pointer is valid."),
        (14, "The second comment line."),
    ]


def test_markdown(prose: ModuleType, tmp_path: Path) -> None:
    text = """# Of a heading nothing counts

A page has sentences. They may go
on: See [the other
page](other.md), e.g. This one.

| of a table | nothing counts |
|---|---|

```python
# Of a code block nothing counts.
```

1. The first step is taken.
2. The second step is taken

    of = "indented code"

> The quoted lines count.
"""
    assert found(prose, tmp_path / "a.md", text) == [
        (3, "A page has sentences."),
        (3, "They may go on:"),
        (4, "See the other page, e.g. This one."),
        (14, "The first step is taken."),
        (15, "The second step is taken"),
        (19, "The quoted lines count."),
    ]


def test_comments_of_other_files(prose: ModuleType, tmp_path: Path) -> None:
    text = "#!/bin/sh\n# The tool comes first.\nset -e # not this\n    # The indented comment counts.\n"
    for name in ("a.sh", "a.toml", "a.yml", "Makefile"):
        assert found(prose, tmp_path / name, text) == [
            (2, "The tool comes first."),
            (4, "The indented comment counts."),
        ]
    assert found(prose, tmp_path / "a.txt", text) == []


@pytest.fixture
def repository(prose: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, which the script checks."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text("The chunk is read once.\n\nOf the chunks one is read.\n")
    settings = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "--quiet"], ["add", "."], [*settings, "commit", "--quiet", "-m", "one"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def run(
    prose: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, list[str]]:
    """The exit status, and the printed lines."""
    monkeypatch.setattr(sys, "argv", ["check_prose.py", *arguments])
    with pytest.raises(SystemExit) as end:
        prose.main()
    return int(end.value.code or 0), capsys.readouterr().out.splitlines()


def test_a_share_above_the_limit_fails(
    prose: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = run(prose, monkeypatch, capsys)
    assert status == 1
    assert lines == [
        "a.md:3: opens: Of the chunks one is read.",
        "    opens: 1 of 2 sentences, 50.00 % (at most 1.0 %)",
        "    holds: 0 of 2 sentences, 0.00 % (at most 1.0 %)",
        "    long: 0 of 2 sentences, 0.00 % (at most 3.0 %)",
    ]
    (repository / "b.md").write_text("The chunk is read once.\n\n" * 98)
    status, lines = run(prose, monkeypatch, capsys)
    assert status == 0
    assert lines[0] == "    opens: 1 of 100 sentences, 1.00 % (at most 1.0 %)"
    status, lines = run(prose, monkeypatch, capsys, "--all", "a.md", "b.md")
    assert status == 0
    assert lines[0] == "a.md:3: opens: Of the chunks one is read."


def test_the_lines_of_a_change(
    prose: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = repository / "a.md"
    page.write_text(page.read_text() + "\nThose that come later\nare new.\n")
    (repository / "new.sh").write_text("# Nor is this one old.\n")
    status, lines = run(prose, monkeypatch, capsys, "--diff", "HEAD")
    assert status == 0
    assert lines == [
        "a.md:5: opens: Those that come later are new.",
        "new.sh:1: opens: Nor is this one old.",
        "    opens: 2 of 2 sentences, 100.00 % (at most 1.0 %)",
        "a.md:5: holds: Those that come later are new.",
        "    holds: 1 of 2 sentences, 50.00 % (at most 1.0 %)",
        "    long: 0 of 2 sentences, 0.00 % (at most 3.0 %)",
    ]


def test_an_archive_without_git(
    prose: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (".venv-3.13", "build", "target"):
        (repository / folder).mkdir()
        (repository / folder / "b.md").write_text("Of the chunks one is read.\n")
    (repository / ".git").rename(repository.parent / f"{repository.name}.git")
    for paths in ([], ["a.md"]):
        status, lines = run(prose, monkeypatch, capsys, *paths)
        assert status == 1
        assert lines[:2] == [
            "a.md:3: opens: Of the chunks one is read.",
            "    opens: 1 of 2 sentences, 50.00 % (at most 1.0 %)",
        ]
