"""The page at its edges: large coordinates, close numbers, odd addresses, quick hands, keyboards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
import xarray as xr
import zarr
from browser import Browser
from viewer_page import LOADED, number, point, show

pytestmark = pytest.mark.servers

SST = "/view/ocean.nc/sst"
FIRST = 1764352800000000000
EASTINGS = 5432105 + 10 * np.arange(32)


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server for files with awkward numbers and names."""
    folder = tmp_path_factory.mktemp("edges")
    sharded = zarr.create_array(
        str(folder / "sharded.zarr"), shape=(64, 64), chunks=(8, 8), shards=(32, 32), dtype="f4"
    )
    sharded[:] = np.arange(4096.0).reshape(64, 64)
    with h5py.File(folder / "edges.h5", "w") as file:
        pressure = np.linspace(101325, 101345.3125, 1024).reshape(32, 32)
        file["pressure"] = pressure.astype("f4")
        file["pressure"].attrs["units"] = "Pa"
        file["cover 50%"] = np.arange(6.0).reshape(2, 3)
        file["voltage"] = np.exp(1j * np.linspace(-3, 3, 64)).reshape(8, 8)
        file["voltage"].attrs["units"] = "V"
    nanoseconds = FIRST + 1000 * np.arange(40)
    days = np.arange(10_002)
    data = xr.Dataset(
        {
            "map": (("y", "x"), np.arange(1024.0).reshape(32, 32)),
            "trace": (("lambda",), np.arange(40.0)),
            "traces": (("row", "lambda"), np.arange(160.0).reshape(4, 40)),
            "long": (("time", "y", "x"), np.zeros((10_002, 32, 32), "f4")),
        },
        coords={
            "y": ("y", EASTINGS, {"units": "m", "axis": "Y"}),
            "x": ("x", EASTINGS, {"units": "m", "axis": "X"}),
            "lambda": ("lambda", nanoseconds),
            "time": ("time", days, {"units": "days since 2001-01-01", "standard_name": "time"}),
        },
    )
    chunks = {"long": {"chunksizes": (100, 32, 32), "zlib": True}}
    data.to_netcdf(folder / "edges.nc", engine="h5netcdf", encoding=chunks)
    with hs.serve(*(folder / name for name in ("sharded.zarr", "edges.h5", "edges.nc"))) as server:
        yield server.url


def _ends(window: Browser) -> Any:
    return window.run("return page.locator('.bar-end').evaluateAll((all) => all.map((one) => +one.value))")


def test_close_numbers_of_a_colour_bar(window: Browser, edges: str) -> None:
    show(window, f"{edges}/view/edges.h5/pressure?range=all")
    assert _ends(window) == [101325, 101345.3]
    ticks = window.run("return page.locator('.bar-ticks span').allTextContents()")
    assert ticks == ["101330", "101335", "101340"]
    # The field of the other end is rounded, and its number is not.
    window.run("await page.locator('.bar-end').first().fill('101326.5'); await page.keyboard.press('Enter')")
    window.wait("new URLSearchParams(location.search).get('range') === '101326.5,101345.3125'")


def test_ranges_that_nobody_understands(window: Browser, edges: str) -> None:
    show(window, f"{edges}/view/edges.h5/pressure")
    usual = _ends(window)
    assert usual[0] < usual[1]
    for wrong in ("foo", "98-2", "5,1"):
        show(window, f"{edges}/view/edges.h5/pressure?range={wrong}")
        assert _ends(window) == usual
    # Adding 1 to such a number changes nothing: no loop may wait for that.
    show(window, f"{edges}/view/edges.h5/pressure?range=1e20,100000000000000032768")


def test_large_coordinates(window: Browser, edges: str) -> None:
    show(window, f"{edges}/view/edges.nc/map")
    point(window, 2, 5, 32, 32)
    text = window.text(".readout")
    assert any(f"y {at} m, x {EASTINGS[5]} m" in text for at in (EASTINGS[2], EASTINGS[29])), text
    show(window, f"{edges}/view/edges.nc/long?select=10001,:,:")
    window.wait("document.querySelector('.slider output').textContent.includes('about 2028-05-18')")
    show(window, f"{edges}/view/edges.nc/long?select=9999,:,:")
    window.wait("/^2028-05-18/.test(document.querySelector('.slider output').textContent)")
    # One element of nanoseconds.
    show(window, f"{edges}/view/edges.nc/traces?select=:,5:6")
    window.run("""
        const box = await page.locator('.area').boundingBox();
        await page.mouse.move(box.x + box.width / 2, box.y + 20);
    """)
    assert f"lambda {FIRST + 5000}" in window.text(".readout")
    show(window, f"{edges}/view/edges.nc/trace?select=5:7")
    assert "5 to 6" in str(window.run("return page.locator('.chart').getAttribute('aria-label')"))


def test_text_of_an_address_is_no_python(window: Browser, edges: str) -> None:
    # `lambda` is a word of Python: it cannot be the name of an argument.
    for select, values, isel in (
        ("2%5D;import%20os%23", "[0:40]", '{"lambda": slice(0, 40)}'),
        ("-4:", "[36:40]", '{"lambda": slice(36, 40)}'),
    ):
        show(window, f"{edges}/view/edges.nc/trace?select={select}")
        lines = window.run("return page.locator('.python code').allTextContents()")
        assert lines[0].endswith(f'/zarr/edges.nc/trace"){values}')
        assert lines[1].endswith(f'data["trace"].isel({isel})')
        for text in lines:
            compile(text, "lines", "exec")


def test_percent_in_an_address(window: Browser, edges: str) -> None:
    show(window, f"{edges}/view/edges.h5/cover%2050%")
    assert "cover 50%" in window.text("h1")
    assert window.problems == []


def test_shards(window: Browser, edges: str) -> None:
    window.open(f"{edges}/view/sharded.zarr?tab=chunks")
    window.run("await page.waitForSelector('.chunk-map .legend')")
    assert "4 of 4 shards are stored" in window.text(".chunk-map .legend")
    assert "each 32 × 32 elements" in window.text(".chunk-map .legend")
    assert "Click a shard" in window.text(".chunk-map .readout")
    window.run("await page.getByRole('button', { name: 'Check all shards' }).click()")
    window.wait("document.querySelector('.checking').textContent === 'All 4 shards are intact'")


def test_units_of_a_phase(window: Browser, edges: str) -> None:
    show(window, f"{edges}/view/edges.h5/voltage?part=phase&marks=2,2")
    window.run("await page.locator('summary', { hasText: 'Statistics' }).click()")
    window.run("await page.waitForSelector('.histogram dl')")
    facts = window.text(".histogram dl").split("\n")
    assert facts[facts.index("largest") + 1] == "3 radians"
    point(window, 0, 0, 8, 8)
    window.wait("document.querySelector('.readout .value').textContent === '−3 radians'")


def test_quick_clicks(window: Browser, url: str) -> None:
    show(window, f"{url}{SST}")
    window.run("""
        const box = await page.locator('.area').boundingBox();
        await page.mouse.click(box.x + box.width * 0.4, box.y + box.height / 2);
        await page.mouse.click(box.x + box.width * 0.6, box.y + box.height / 2);
    """)
    window.wait("document.querySelectorAll(\".profiles .chart[aria-label*=';']\").length === 3")


def test_a_film_keeps_what_is_around_it(window: Browser, url: str) -> None:
    """A slow film reads each plane once, asks for no costs that nobody sees, and keeps its buttons."""
    show(window, f"{url}{SST}")
    asked = window.run("""
        const asked = [];
        const note = (request) => asked.push(request.url());
        const kept = 'select, .python button, .downloads a, .toolbar button';
        await page.evaluate((kept) => { window.kept = [...document.querySelectorAll(kept)]; }, kept);
        await page.route('**/api/plane/**', async (route) => {
            await new Promise((resolve) => setTimeout(resolve, 300));
            await route.continue();
        });
        page.on('request', note);
        await page.locator('.play').click();
        const step = () => / [6-9] \\//.test(document.querySelector('.slider output').textContent);
        await page.waitForFunction(step);
        await page.locator('.play').click();
        page.off('request', note);
        await page.unrouteAll({ behavior: 'wait' });
        return asked;
    """)
    assert window.run("return page.evaluate(() => window.kept.length > 8)")
    assert window.run("return page.evaluate(() => window.kept.every((element) => element.isConnected))")
    planes = [address for address in asked if "/api/plane/" in address]
    assert len(planes) >= 6
    assert len(planes) == len(set(planes))
    assert not [address for address in asked if "/api/explain/" in address]
    link = window.run("return page.locator('.downloads a').first().getAttribute('href')")
    at = int(number(window.text(".slider output").split("· ")[1]))
    assert f"select={at},:,:" in link


def test_keyboards_stay_where_they_are(window: Browser, url: str) -> None:
    show(window, f"{url}/view/station.h5/names")
    focused = "return page.evaluate(() => document.activeElement.textContent)"
    window.run("await page.locator('.table button', { hasText: 'Rows ›' }).focus()")
    window.run("await page.keyboard.press('Enter')")
    window.wait("document.querySelector('.table tbody').textContent.includes('gauge 99')")
    assert window.run(focused) == "Rows ›"
    window.run("await page.keyboard.press('Enter')")
    window.wait("document.querySelector('.table tbody').textContent.includes('gauge 119')")
    assert window.run("return page.evaluate(() => document.activeElement.className)") == "scroll"
    window.run("await page.locator('.tab', { hasText: 'Chunks' }).focus()")
    window.run("await page.keyboard.press('Enter'); await page.waitForSelector('.chunk-map')")
    assert window.run(focused) == "Chunks"


def test_an_array_that_is_being_replaced(window: Browser, tmp_path: Path) -> None:
    place = tmp_path / "run.zarr"

    def write(value: float) -> None:
        array = zarr.create_array(str(place), shape=(8, 8), chunks=(4, 4), dtype="f4", overwrite=True)
        array[:] = value

    write(1)
    with hs.serve(str(place)) as server:
        show(window, f"{server.url}/view/run.zarr")
        window.run("""
            let first = true;
            await page.route('**/api/version/**', (route) => route.fulfill({ json: { version: 'another' } }));
            await page.route('**/api/describe/**', async (route) => {
                // The first answer says that the array changed. Then it is not there for a while.
                if (!first) return void (await route.fulfill({ status: 404, json: { found: 'no array' } }));
                first = false;
                await route.continue();
            });
            await page.waitForSelector('.problem');
            await page.unrouteAll({ behavior: 'wait' });
        """)
        write(2)
        window.wait(LOADED)
        point(window, 2, 2, 8, 8)
        window.wait("document.querySelector('.readout .value')?.textContent === '2'")
