"""Runs the examples of README.md and docs/*.md, so that they stay true: check_docs.py [PAGE ...]

The blocks of one file run in order in one empty directory:

    ```python    all in one namespace
    ```console   lines that begin with `$ ` run in a shell; the lines below are the expected output, in which
                 `...` stands for anything
    ```rust      must be the same as one of crates/hyperslab/examples/*.rs, which is compiled and run here

Other blocks (```sh and so on) are not run.

For examples with `s3://bucket/…`, the test object server serves that bucket.
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_python(code: str, namespace: dict[str, Any], where: str) -> str:
    """Runs one block. Its output is ignored; its assertions count."""
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, where, "exec"), namespace)
    return ""


def run_console(block: str) -> str:
    """Runs the commands of one block. Returns the problems."""
    for command, expected in re.findall(r"^\$ ([^\n]*)\n?((?:(?!\$ )[^\n]*\n?)*)", block, re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        found = done.stdout + done.stderr
        if done.returncode:
            return f"$ {command}\nexit status {done.returncode}\n{found}"
        if expected.strip() and not doctest.OutputChecker().check_output(expected, found, OPTIONS):
            return f"$ {command}\nexpected:\n{expected}\nfound:\n{found}"
    return ""


def run_rust(code: str) -> str:
    """Compiles and runs the example that equals the block. Returns the problems."""
    for example in (ROOT / "crates/hyperslab/examples").glob("*.rs"):
        if code.strip() in example.read_text():
            command = ["cargo", "run", "--quiet", "--package", "hyperslab", "--example", example.stem]
            done = subprocess.run(
                [*command, "--manifest-path", str(ROOT / "Cargo.toml")], capture_output=True, text=True
            )
            return done.stderr if done.returncode else ""
    return "is in none of crates/hyperslab/examples/*.rs"


@contextlib.contextmanager
def bucket() -> Iterator[None]:
    """Starts an S3 server and points the environment to it."""
    sys.path.insert(0, str(ROOT / "tests" / "lib"))
    from object_server_client import Server

    with Server() as server:
        known = {"ENDPOINT_URL": server.url, "REGION": "us-east-1"}
        secret = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}
        os.environ.update({f"AWS_{name}": value for name, value in (known | secret).items()})
        yield


def check(path: Path) -> tuple[int, list[str]]:
    """Runs all blocks of one file. Returns their number and the problems."""
    text = path.read_text()
    problems: list[str] = []
    count = 0
    namespace: dict[str, Any] = {"__name__": "__main__"}
    runs = "".join(code for language, code in FENCE.findall(text) if language in ("python", "console"))
    server = bucket() if "s3://bucket/" in runs else contextlib.nullcontext()
    with server, tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        for block in FENCE.finditer(text):
            language, code = block.groups()
            where = f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}"
            try:
                if language == "python":
                    problem = run_python(code, namespace, where)
                elif language == "console":
                    problem = run_console(code)
                elif language == "rust":
                    problem = run_rust(code)
                else:
                    continue
            except Exception:
                problem = traceback.format_exc(limit=-1)
            count += 1
            if problem:
                problems.append(f"{where}: {problem}")
    return count, problems


def main() -> None:
    """Checks every document, or the named ones."""
    # Use the command of this Python's environment, even if that is not active.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    problems: list[str] = []
    named = [Path(argument).resolve() for argument in sys.argv[1:]]
    for path in named or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        count, found = check(path)
        problems += found
        print(f"    {path.relative_to(ROOT)}: {count} examples, {len(found)} fail")
    for problem in problems:
        print(f"\n{problem}", file=sys.stderr)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
