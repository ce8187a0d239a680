"""A real browser: Debian's Chromium, driven by playwright-core in Node.js.

`scripts/test-servers.sh` installs both. Tests are skipped if they are missing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from servers import INSTALLED, require, tool

__all__ = ["SCREENSHOTS", "Browser", "browser"]

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"


class Browser:
    """One page of a browser."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.problems: list[str] = []

    def _ask(self, what: str, **asked: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"what": what, **asked}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        self.problems = answer["problems"]
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def open(self, url: str, *, width: int = 1360, height: int = 860, dark: bool = False) -> None:
        """Open an address: in the same window if it is of this kind, or else in a new one."""
        self._ask("open", url=url, width=width, height=height, dark=dark)

    def run(self, code: str) -> Any:
        """Run JavaScript beside the browser: ``page`` is Playwright's. Returns what the code returns."""
        return self._ask("run", code=code)

    def text(self, selector: str) -> str:
        """Return the text of an element, once it is there."""
        found = self.run(f"return page.locator({json.dumps(selector)}).first().innerText()")
        return str(found).replace("\u2212", "-").replace("\u2009", " ")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true in the page."""
        self.run(f"await page.waitForFunction(() => {condition})")

    def screenshot(self, name: str) -> None:
        """Keep a picture of the page in ``build/screenshots``."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = str(SCREENSHOTS / f"{name}.png")
        self.run(f"await page.screenshot({{ path: {json.dumps(path)} }})")

    def violations(self, only: Sequence[str] = ()) -> list[str]:
        """Return the rules for screen readers that the page breaks, by axe-core. By default of all rules."""
        options = json.dumps({"runOnly": list(only)} if only else {})
        return list(
            self.run(
                f"const options = {options};"
                + """
            await page.evaluate(axe);
            const found = await page.evaluate((options) => axe.run(document, options), options);
            const html = (violation) => violation.nodes.slice(0, 3).map((node) => node.html).join(" ");
            return found.violations.map((violation) => violation.id + ": " + html(violation));
            """
            )
        )


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser. It ends with the block."""
    program = tool("chromium")
    packages = INSTALLED / "browser"
    require("browser", packages / "node_modules" / "playwright-core" / "package.json")
    node = shutil.which("node") or "node"
    script = Path(__file__).with_name("browser.mjs")
    process = subprocess.Popen(
        [node, str(script), str(packages), str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Browser(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=30)
