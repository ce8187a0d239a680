"""Finds sentences that readers have to read twice: check_prose.py [--diff BASE] [--all] [PATH ...]

Looks at comments, docstrings and pages. Three habits make a sentence hard to read:

- opens: it begins with a clause instead of its subject: "Of the chunks …", "What is read …"
- holds: it has a pronoun in the place of a noun ("those of"), or a rare word ("lest")
- long: it has more than 30 words

Some sentences with a habit are good, so the check fails only if their share is above a limit. It then
prints them as `file:line`. `--all` always prints them. `--diff` prints the ones in lines that differ from
a commit, and does not fail. Code, quoted words, tables and headings are left out.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LIMITS = {"opens": 1.0, "holds": 1.0, "long": 3.0}
"""The largest share of sentences with each habit, in percent: what well-written libraries have."""

MOST_WORDS = 30
FEWEST_WORDS = 3
"""Shorter pieces are names, not sentences."""

OPENERS = (
    r"Of|What|Whatever|Where|Wherever|Who|Whoever|Whom|Whose|Those|Such|So|Nor|Neither|Whether|"
    r"However (?:many|much|few|large|long|often)|Be it|As many|As few|Not so"
)
# NumPy's way to describe a parameter is "Whether to …".
OPENS = re.compile(rf"\W*(?:{OPENERS})\b(?! (?:far|on|to)\b)")
HOLDS = re.compile(
    r"\b(?:so many|of which|of whom|those (?:that|of|which|who)|that of|what (?:is|are|was|were)|who is|"
    r"who(?:m|so)?ever|(?:is|are) to be|lest|(?:there|where)(?:in|of|upon)|has none|there are none|"
    r"nobody has)\b",
    re.IGNORECASE,
)

HIDDEN, HIDDEN_END = "\0", "\1"
"""Stand for characters that are not prose, and for ends of lines among them. Lines keep their numbers."""

CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
QUOTED = re.compile(r'"[^"\n]{1,60}"')
LINK = re.compile(r"\[([^]]*)\](\([^)\s]*\)|\[[^]]*\])")
# A colon and a semicolon end a sentence if the next one could stand alone.
END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!vs)[.!?:;…][)\"”*_]*\s+(?=[\"“(*_]*[A-Z0-9])")

ITEM = re.compile(r"(?:[-*+•]|\d+\.)\s+")
# `name : type` begins a parameter in a docstring in NumPy's style.
PARAMETER = re.compile(r"[*\w][\w*, ]* : \S")
NOT_PROSE = re.compile(r"[|<#$]|!\[|[-=~*_]{3,}$|SAFETY:$")


def hidden(text: str) -> str:
    """The text with all characters hidden."""
    return "".join(HIDDEN_END if character == "\n" else HIDDEN for character in text)


def shown(text: str) -> str:
    """The text without hidden characters."""
    return text.replace(HIDDEN, "").replace(HIDDEN_END, "")


@dataclass
class Paragraph:
    """Neighbouring lines of prose, with the number of each line."""

    lines: list[tuple[int, str]] = field(default_factory=list)

    def sentences(self) -> Iterator[Sentence]:
        """The sentences, with code, quoted words and the targets of links hidden."""
        text = "\n".join(text for _, text in self.lines)
        text = QUOTED.sub(lambda quoted: "X" + hidden(quoted[0][1:]), text)
        text = CODE.sub(lambda code: "X" + hidden(code[0][1:]), text)
        text = LINK.sub(lambda link: f"{HIDDEN}{link[1]}{HIDDEN}{hidden(link[2])}", text)
        begin = 0
        for end in [*(match.end() for match in END.finditer(text)), len(text)]:
            piece = text[begin:end]
            first = begin + len(piece) - len(piece.lstrip())
            last = begin + len(piece.rstrip())
            begin = end
            words = shown(piece).split()
            if len(words) >= FEWEST_WORDS:
                yield Sentence(self._line_at(text, first), self._line_at(text, last), " ".join(words))

    def _line_at(self, text: str, place: int) -> int:
        ends = text.count("\n", 0, place) + text.count(HIDDEN_END, 0, place)
        return self.lines[ends][0]


@dataclass(frozen=True)
class Sentence:
    """A sentence, and its first and last line."""

    first: int
    last: int
    text: str

    def habits(self) -> Iterator[str]:
        """The habits that the sentence has."""
        if OPENS.match(self.text) and not self.text.endswith("?"):
            yield "opens"
        if HOLDS.search(self.text):
            yield "holds"
        if len(self.text.split()) > MOST_WORDS:
            yield "long"


def paragraphs(lines: Iterable[tuple[int, str]], most_indent: int = 100) -> Iterator[Paragraph]:
    """Cuts marked-up lines into paragraphs of prose. Lines that are indented further are code."""
    found = Paragraph()
    fenced = example = False
    indent = 0
    code_below: int | None = None
    before = 0
    for number, line in lines:
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if text and code_below is not None and depth <= code_below:
            code_below = None
        fence = text.startswith(("```", "~~~"))
        example = bool(text) and (example or text.startswith(">>> "))
        begins = ITEM.match(text)
        left_out = (
            not text
            or fence
            or fenced
            or example
            or code_below is not None
            or depth >= most_indent
            or NOT_PROSE.match(text)
            or PARAMETER.match(text)
        )
        # An indented line goes on with the list item above it, but not with an indented block.
        if found.lines and (left_out or begins or depth != indent or number != before + 1):
            yield found
            found = Paragraph()
        fenced ^= fence
        if not left_out:
            start = begins.end() if begins else 0
            found.lines.append((number, text[start:]))
            indent = depth + start
        if text.endswith("::"):
            code_below = depth
        before = number
    if found.lines:
        yield found


def python_prose(text: str) -> Iterator[Paragraph]:
    """Docstrings and comments. A string that is a statement is a docstring."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=begin, end_lineno=int(end)):
                first, *rest = lines[begin - 1 : end]
                # The first line begins after the quotes, and the others at the margin.
                margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
                docstring = [re.sub(r'^\s*\w*"+', "", first), *(line[margin:] for line in rest)]
                docstring[-1] = re.sub(r'"+\s*$', "", docstring[-1])
                yield from paragraphs(enumerate(docstring, begin))
    comments = (
        (token.start[0], token.string.lstrip("#").removeprefix(" "))
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith(("#!", "# type:", "# noqa"))
    )
    yield from paragraphs(comments)


def rust_prose(text: str) -> Iterator[Paragraph]:
    """Comments and documentation. A line of another kind of comment begins another paragraph."""
    block: list[tuple[int, str]] = []
    kind = ""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*(//[/!]?)(?: |$)(.*)", line)
        if block and (match is None or match[1] != kind):
            yield from paragraphs(block)
            block = []
        if match is not None:
            kind = match[1]
            block.append((number, match[2].removeprefix("SAFETY: ")))
    yield from paragraphs(block)


def markdown_prose(text: str) -> Iterator[Paragraph]:
    """A page. Four spaces of indentation are code."""
    quoted = (re.sub(r"^> ?", "", line) for line in text.splitlines())
    return paragraphs(enumerate(quoted, 1), most_indent=4)


def other_prose(text: str) -> Iterator[Paragraph]:
    """Comments that begin with `#` on lines of their own."""
    lines = enumerate(text.splitlines(), 1)
    return paragraphs((n, line.lstrip()[2:]) for n, line in lines if re.match(r"\s*# ", line))


READERS = {
    ".md": markdown_prose,
    ".py": python_prose,
    ".pyi": python_prose,
    ".rs": rust_prose,
    ".sh": other_prose,
    ".toml": other_prose,
    ".yml": other_prose,
    "Makefile": other_prose,
}
"""Readers by the end of a file's name."""


def sentences(path: Path) -> Iterator[Sentence]:
    """The sentences of a file."""
    reader = READERS.get(path.suffix or path.name)
    if reader is not None:
        for paragraph in reader(path.read_text()):
            yield from paragraph.sentences()


def git(*arguments: str) -> list[str]:
    """The lines that a command of git prints."""
    command = ["git", *arguments]
    return subprocess.check_output(command, cwd=ROOT, text=True, stderr=subprocess.PIPE).splitlines()


def files(paths: list[str]) -> list[str]:
    """The files of the repository, in these folders if any are given. Works without git, too."""
    try:
        return sorted(set(git("ls-files", "--cached", "--others", "--exclude-standard", "--", *paths)))
    except (FileNotFoundError, subprocess.CalledProcessError):
        # The code may be an unpacked archive, with builds and environments in it.
        made = {"build", "dist", "target", "node_modules"}
        roots = [ROOT / path for path in paths] or [ROOT]
        below = (path for root in roots for path in ([root] if root.is_file() else root.rglob("*")))
        names = (path.relative_to(ROOT) for path in below)
        return sorted(
            name.as_posix()
            for name in names
            if not made & set(name.parts) and not any(part.startswith(".venv") for part in name.parts)
        )


def changed(base: str) -> dict[str, set[int]]:
    """The lines that differ from a commit, by file. New files are not known to git: all lines."""
    found: dict[str, set[int]] = {}
    path = ""
    for line in git("diff", "--unified=0", "--no-color", "--no-ext-diff", base):
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            begin, count = int(match[1]), int(match[2] or 1)
            found.setdefault(path, set()).update(range(begin, begin + count))
    for path in git("ls-files", "--others", "--exclude-standard"):
        found[path] = set(range(1, 1_000_000))
    return found


def main() -> None:
    """Counts the habits, and fails above the limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", help="files and folders; by default the repository")
    parser.add_argument("--diff", metavar="BASE", help="show the sentences that differ from this commit")
    parser.add_argument("--all", action="store_true", help="print all such sentences, whatever their share")
    options = parser.parse_args()
    lines = changed(options.diff) if options.diff else None
    total = 0
    found: dict[str, list[str]] = {habit: [] for habit in LIMITS}
    for name in files(options.paths):
        if not (ROOT / name).is_file() or (lines is not None and name not in lines):
            continue
        for sentence in sentences(ROOT / name):
            if lines is not None and lines[name].isdisjoint(range(sentence.first, sentence.last + 1)):
                continue
            total += 1
            for habit in sentence.habits():
                found[habit].append(f"{name}:{sentence.first}: {habit}: {sentence.text}")
    failed = False
    for habit, limit in LIMITS.items():
        share = 100 * len(found[habit]) / max(total, 1)
        above = share > limit and lines is None
        failed |= above
        if above or options.all or lines is not None:
            print("\n".join(found[habit]), end="\n" if found[habit] else "")
        print(f"    {habit}: {len(found[habit])} of {total} sentences, {share:.2f} % (at most {limit} %)")
    sys.exit(failed)


if __name__ == "__main__":
    main()
