"""The viewer's files in the repository are what its source builds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from servers import require

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
COLORS = "crates/hyperslab/src/look/colors.rs"


def test_built_files_are_current(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    require("npm", Path(npm or "npm"))
    shutil.copytree(
        ROOT / "viewer", tmp_path / "viewer", ignore=shutil.ignore_patterns("node_modules", "generated")
    )
    colors = tmp_path / COLORS
    colors.parent.mkdir(parents=True)
    shutil.copy(ROOT / COLORS, colors)
    for command in (
        ["ci", "--no-audit", "--no-fund", "--prefer-offline"],
        ["run", "check"],
        ["run", "build"],
    ):
        done = subprocess.run(
            [str(npm), *command], cwd=tmp_path / "viewer", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assets = Path("crates/serve/assets")
    built = {path.relative_to(tmp_path / assets): path for path in (tmp_path / assets).rglob("*.*")}
    kept = {path.relative_to(ROOT / assets): path for path in (ROOT / assets).rglob("*.*")}
    assert sorted(built) == sorted(kept)
    for name, path in built.items():
        advice = f"{assets / name} is not what viewer/ builds: run `npm ci && npm run build` in viewer/"
        assert path.read_bytes() == kept[name].read_bytes(), advice
    assert sum(path.stat().st_size for path in kept.values()) < 1_000_000
