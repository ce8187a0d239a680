"""Opens and reads the page of the viewer, for its tests."""

from __future__ import annotations

import re
from typing import Any

from browser import Browser

__all__ = ["LOADED", "number", "point", "show"]

LOADED = "document.querySelector('.area')?.ariaBusy === 'false'"


def show(window: Browser, address: str, **options: Any) -> None:
    """Open an address, and wait until its picture, line, table or value is there."""
    window.open(address, **options)
    window.run("await page.waitForSelector('.area, .chart canvas, .table table, .scalar .large')")
    if window.run("return page.locator('.picture').count()"):
        window.wait(LOADED)


def point(window: Browser, row: float, column: float, rows: int, columns: int, flipped: bool = False) -> None:
    """Move the pointer to an element of a plane whose elements are squares."""
    window.run(f"""
        const box = await page.locator('.area').boundingBox();
        const scale = Math.min(box.width / {columns}, box.height / {rows});
        const x = box.x + box.width / 2 + ({column} + 0.5 - {columns} / 2) * scale;
        const down = ({row} + 0.5 - {rows} / 2) * scale;
        await page.mouse.move(x, box.y + box.height / 2 + ({"-" if flipped else ""}down));
    """)


def number(text: str) -> float:
    """Return the first number of a text."""
    found = re.search(r"-?\d+(\.\d+)?(e-?\d+)?", text)
    assert found, text
    return float(found[0])
