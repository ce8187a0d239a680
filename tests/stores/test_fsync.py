"""With ``fsync`` files are flushed before they are named, and directories after changes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")

CALLS = "openat,open,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat"

OPERATIONS = {
    "create and write": "hs.create_array(root + '/n/a', data=values, chunks=(5, 100))",
    "partial write": "z = hs.open_array(root + '/src', mode='r+'); z[3, 5] = 9",
    "whole chunk": "z = hs.open_array(root + '/src', mode='r+'); z[:10] = 9",
    "shard": "z = hs.create_array(root + '/n/s', data=values, chunks=(5, 10), shards=(10, 100)); z[3, 5] = 9",
    "only fill value": "z = hs.open_array(root + '/src', mode='r+'); z[:10] = 0",
    "writer": "z = hs.open_array(root + '/src', mode='r+')\nwith z.writer() as w: w[0:10] = 4",
}

PROGRAM = """
import os, sys
import numpy as np, hyperslab as hs
hs.config.set(threads=1, fsync=True)
root, values = sys.argv[1], np.arange(1, 1001).reshape(10, 100)
os.path.exists("/hyperslab-mark")
"""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_order_of_flushes(tmp_path: Path, operation: str) -> None:
    root = tmp_path / "r"
    hs.create_array(root / "src", data=np.arange(1, 4001).reshape(40, 100), chunks=(10, 100))
    log = tmp_path / "log"
    command = ["strace", "-f", "-y", "-qqq", "-s", "500", "-o", str(log), "-e", f"trace={CALLS}"]
    program = [sys.executable, "-c", PROGRAM + OPERATIONS[operation], str(root)]
    done = subprocess.run([*command, *program], capture_output=True, text=True)
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    flushed: set[str] = set()
    pending: dict[str, str] = {}
    named = 0
    for line in log.read_text().splitlines():
        if re.search(r"= -1 E", line):
            continue
        if match := re.search(r"f(?:data)?sync\((\d+)<([^>]*)>", line):
            # The descriptor of an unnamed file, or the path of a directory.
            flushed |= {match[1], match[2]}
            pending.pop(match[2], None)
            continue
        if match := re.search(r"open(?:at)?\(.*O_TMPFILE.*= (\d+)", line):
            flushed.discard(match[1])
            continue
        if re.search(r"\bopen(?:at)?\(", line):
            continue
        paths = re.findall(r'"(/[^"]*)"', line)
        if not paths or str(root) not in paths[-1]:
            continue
        target = paths[-1]
        # By descriptor or by path in /proc.
        if match := re.search(r'linkat\((?:(\d+)<[^>]*>(?:\(deleted\))?, ""|.*"/proc/self/fd/(\d+)")', line):
            named += 1
            assert (match[1] or match[2]) in flushed, f"named before it was flushed: {line}"
            if target.endswith(".hyperslab-tmp"):
                continue
        elif "unlink" in line and target.endswith(".hyperslab-tmp"):
            continue
        pending[os.path.dirname(target)] = line
    assert named or operation == "only fill value"
    left = {path: line for path, line in pending.items() if os.path.isdir(path)}
    assert not left
