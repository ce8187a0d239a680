"""The sources of a server's token, and options of servers behind URLs."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest
from hyperslab.errors import HyperslabError


@pytest.fixture
def array(tmp_path: Path) -> Path:
    hs.create_array(tmp_path / "a.zarr", shape=(3,), dtype="i4")[:] = [1, 2, 3]
    return tmp_path / "a.zarr"


@contextmanager
def _served(*arguments: str | Path, token: str | None = None) -> Iterator[tuple[str, str]]:
    """Start the command; return the URL and the line with the token."""
    environment = {**os.environ, **({"HYPERSLAB_TOKEN": token} if token else {})}
    command = [sys.executable, "-m", "hyperslab", "serve", "--port", "0", "--quiet", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        line = process.stdout.readline().strip() if token or "--token-file" in arguments else ""
        try:
            yield url.partition("/zarr/")[0], line
        finally:
            process.terminate()


def _status(url: str, token: str) -> int:
    request = urllib.request.Request(  # noqa: S310
        f"{url}/api/tree", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_file_and_a_variable(array: Path, tmp_path: Path) -> None:
    file = tmp_path / "token.txt"
    file.write_text("from a file \nsecond line\n")
    with _served(array, "--token-file", file) as (url, line):
        assert line == "token: from a file"
        assert (_status(url, "from a file"), _status(url, "other")) == (200, 401)
    with _served(array, token="from the environment") as (url, _):
        assert (_status(url, "from the environment"), _status(url, "other")) == (200, 401)
    # The file is the more explicit of the two.
    with _served(array, "--token-file", file, token="from the environment") as (url, _):
        assert _status(url, "from a file") == 200


@pytest.mark.parametrize("content", [None, "", "\nsecond"])
def test_files_without_a_token(array: Path, tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token.txt"
    if content is not None:
        file.write_text(content)
    command = [sys.executable, "-m", "hyperslab", "serve", str(array), "--token-file", str(file)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2
    assert "--token-file" in run.stderr


def test_options_of_servers(array: Path) -> None:
    """A server serves what another one has, and needs that one's token."""
    with hs.serve(array, token="secret") as first:
        url = first.zarr_url()
        with pytest.raises(HyperslabError):
            hs.serve(url)
        options = {"headers": {"Authorization": "Bearer secret"}}
        np.testing.assert_array_equal(hs.open(url, storage_options=options)[:], [1, 2, 3])
        with hs.serve(url, storage_options=options) as second:
            np.testing.assert_array_equal(hs.open(second.zarr_url())[:], [1, 2, 3])
