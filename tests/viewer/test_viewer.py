"""The page that shows arrays, in a real browser: what it shows is what NumPy and xarray say."""

from __future__ import annotations

import io
import re
import urllib.request
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


def _sst(data: Path) -> Any:
    with xr.open_dataset(data / "ocean.nc", engine="h5netcdf") as opened:
        return opened["sst"].load()


@pytest.mark.parametrize(("time", "row", "column"), [(0, 40, 100), (7, 5, 20), (23, 60, 140)])
def test_numbers_under_the_pointer(
    window: Browser, url: str, data: Path, time: int, row: int, column: int
) -> None:
    sst = _sst(data)
    show(window, f"{url}{SST}?select={time},:,:")
    point(window, row, column, 72, 144, flipped=True)
    window.wait("document.querySelector('.readout').textContent.includes('stored')")
    text = window.text(".readout")
    expected = float(sst[time, row, column])
    assert f"[{time}, {row}, {column}]" in text
    assert abs(number(window.text(".readout .value")) - expected) < 1e-3
    assert str(sst.time.values[time])[:10] in text
    assert abs(number(text.split("lat ")[1]) - float(sst.lat[row])) < 1e-3
    assert abs(number(text.split("lon ")[1]) - float(sst.lon[column])) < 1e-3


def test_axes_in_another_order(window: Browser, url: str, data: Path) -> None:
    sst = _sst(data).values
    show(window, f"{url}{SST}?plane=2,1&select=4,:,:")
    for row, column in ((100, 20), (30, 65)):
        point(window, row, column, 144, 72)
        # Before the element itself is asked for, its value comes from the plane.
        near = number(window.text(".readout .value"))
        window.wait("document.querySelector('.readout').textContent.includes('stored')")
        assert f"[4, {column}, {row}]" in window.text(".readout")
        assert np.allclose([near, number(window.text(".readout .value"))], sst[4, column, row], atol=1e-3)
    window.run("await page.getByLabel('Rows').selectOption({ label: 'time' })")
    window.wait("location.search.includes('plane=0,1')")
    window.wait(LOADED)
    assert window.run("return page.locator('.slider .name').allTextContents()") == ["lon"]


def test_missing_elements_are_shown_as_such(window: Browser, url: str, data: Path) -> None:
    land = np.argwhere(np.isnan(_sst(data)[0].values))
    show(window, f"{url}{SST}")
    assert "missing" in window.text(".missing-legend")
    row, column = map(int, land[len(land) // 2])
    point(window, row, column, 72, 144, flipped=True)
    window.wait("document.querySelector('.readout').textContent.includes('stored: ')")
    assert window.text(".readout .value") == "missing"


def test_colours_and_range(window: Browser, url: str, data: Path) -> None:
    sst = _sst(data)[0].values
    show(window, f"{url}{SST}")
    ends = window.run("return page.locator('.bar-end').evaluateAll((all) => all.map((one) => +one.value))")
    assert np.allclose(ends, np.nanpercentile(sst, [2, 98]), atol=0.1)
    show(window, f"{url}{SST}?range=all&map=cividis")
    ends = window.run("return page.locator('.bar-end').evaluateAll((all) => all.map((one) => +one.value))")
    assert np.allclose(ends, [np.nanmin(sst), np.nanmax(sst)], atol=1e-3)
    window.run("await page.locator('.bar-end').first().fill('-5'); await page.keyboard.press('Enter')")
    window.wait("new URLSearchParams(location.search).get('range')?.startsWith('-5,')")
    window.run("await page.locator('.area').focus(); await page.keyboard.press('m')")
    window.wait("new URLSearchParams(location.search).get('map') === 'magma'")


def test_sliders_and_film(window: Browser, url: str, data: Path) -> None:
    dates = [str(time)[:10] for time in _sst(data).time.values]
    show(window, f"{url}{SST}")
    assert dates[0] in window.text(".slider output")
    window.run("await page.locator('.area').focus(); await page.keyboard.press(']')")
    window.wait(f"document.querySelector('.slider output').textContent.includes('{dates[1]}')")
    window.run("await page.keyboard.press('['); await page.keyboard.press('[')")
    window.wait(f"document.querySelector('.slider output').textContent.includes('{dates[-1]}')")
    window.run("await page.keyboard.press(' ')")
    # A film on a slow machine may have left each single step when somebody looks.
    window.wait("/· [2-9] /.test(document.querySelector('.slider output').textContent)")
    window.run("await page.keyboard.press(' ')")
    assert "Play" in str(window.run("return page.locator('.play').getAttribute('aria-label')"))


def test_the_address_is_the_view(window: Browser, url: str) -> None:
    show(window, f"{url}{SST}")
    window.run("""
        const box = await page.locator('.area').boundingBox();
        await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
        for (let n = 0; n < 4; n += 1) await page.mouse.wheel(0, -300);
    """)
    window.wait("/select=0,\\d+:\\d+,\\d+:\\d+/.test(location.search)")
    address = window.run("return page.url()")
    select = re.search(r"select=0,(\d+):(\d+),(\d+):(\d+)", address)
    assert select
    top, bottom, left, right = map(int, select.groups())
    assert 0 < top < 36 < bottom < 72
    assert 0 < left < 72 < right < 144
    show(window, address)
    window.run("await page.waitForTimeout(400)")
    assert window.run("return page.url()") == address
    window.run("await page.locator('.tab', { hasText: 'Table' }).click()")
    window.run("await page.waitForSelector('.table table')")
    window.run("await page.goBack()")
    window.run("await page.waitForSelector('.area')")
    assert window.run("return page.url()") == address


def test_profiles(window: Browser, url: str, data: Path) -> None:
    sst = _sst(data).values
    show(window, f"{url}{SST}?select=3,:,:")
    for row, column in ((20, 60), (50, 120)):
        point(window, row, column, 72, 144, flipped=True)
        window.run("await page.mouse.down(); await page.mouse.up()")
    window.wait("document.querySelectorAll('.chips .dot').length === 2")
    window.wait("document.querySelectorAll('.profiles .chart canvas').length === 3")
    window.wait("document.querySelectorAll(\".profiles .chart[aria-label*=';']\").length === 3")
    labels = window.run(
        "return page.locator('.profiles .chart').evaluateAll((all) => all.map((one) => one.ariaLabel))"
    )
    assert [label.split(".")[0] for label in labels] == [
        f"Profile along {name}" for name in ("time", "lat", "lon")
    ]
    for label, lines in zip(
        labels,
        [sst[:, [20, 50], [60, 120]].T, [sst[3, :, 60], sst[3, :, 120]], [sst[3, 20], sst[3, 50]]],
        strict=True,
    ):
        numbers = [
            tuple(map(float, found))
            for found in re.findall(r": (-?[\d.]+) to (-?[\d.]+)", label.replace("\u2212", "-"))
        ]
        assert np.allclose(numbers, [(np.nanmin(line), np.nanmax(line)) for line in lines], atol=1e-3)
    window.wait("location.search.includes('marks=3,20,60%3B3,50,120')")


def test_a_box(window: Browser, url: str, data: Path) -> None:
    show(window, f"{url}{SST}?select=3,:,:")
    window.run("await page.keyboard.down('Shift')")
    point(window, 15, 20, 72, 144, flipped=True)
    window.run("await page.mouse.down()")
    point(window, 30, 70, 72, 144, flipped=True)
    window.run("await page.mouse.up(); await page.keyboard.up('Shift')")
    window.run("await page.waitForSelector('.histogram dl')")
    window.wait("location.search.includes('box=')")
    box = re.search(r"box=(\d+):(\d+),(\d+):(\d+)", window.run("return page.url()"))
    assert box
    top, bottom, left, right = map(int, box.groups())
    assert (top, bottom, left, right) == (15, 31, 20, 71)
    part = _sst(data).values[3, top:bottom, left:right]
    facts = window.text(".histogram dl").split("\n")
    found = dict(zip(facts[::2], facts[1::2], strict=True))
    assert int(found["numbers"].replace(" ", "")) == np.isfinite(part).sum()
    assert abs(number(found["mean"]) - np.nanmean(part)) < 1e-3
    assert abs(number(found["largest"]) - np.nanmax(part)) < 1e-3


def test_colours_of_a_microscope(window: Browser, url: str, data: Path) -> None:
    image = np.asarray(zarr.open_array(str(data / "cells.zarr" / "0"))[:])
    _show_photograph(window, f"{url}/view/cells.zarr/0")
    for row, column in ((60, 100), (200, 400), (300, 640), (450, 80)):
        color = window.run(f"""
            return page.evaluate(() => {{
                const canvas = document.querySelector('.area canvas');
                const copy = document.createElement('canvas');
                [copy.width, copy.height] = [canvas.width, canvas.height];
                const context = copy.getContext('2d');
                context.drawImage(canvas, 0, 0);
                const scale = Math.min(canvas.width / 768, canvas.height / 512);
                const x = canvas.width / 2 + ({column} + 0.5 - 384) * scale;
                const y = canvas.height / 2 + ({row} + 0.5 - 256) * scale;
                return [...context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data].slice(0, 3);
            }})""")
        near = image[:, row - 2 : row + 3, column - 2 : column + 3].reshape(3, -1)
        assert any(np.allclose(color, one, atol=2) for one in near.T), (row, column, color)


def _show_photograph(window: Browser, address: str) -> None:
    window.open(address)
    window.run("await page.waitForSelector('.color-bar.photograph', { state: 'attached' })")
    window.wait(LOADED)


def test_chunks(window: Browser, url: str, data: Path) -> None:
    show(window, f"{url}{SST}")
    window.run("await page.locator('.area').focus(); await page.keyboard.press('c')")
    window.run("await page.waitForSelector('.chunk-map .legend')")
    assert "24 of 24 chunks are stored" in window.text(".chunk-map .legend")
    # The second chunk along longitude, of the first sheet.
    window.run("await page.locator('.grid').focus(); await page.keyboard.press('ArrowRight')")
    window.run("await page.keyboard.press('ArrowRight')")
    with h5py.File(data / "ocean.nc") as file:
        size = file["sst"].id.get_chunk_info_by_coord((0, 0, 72)).size
    assert f"chunk (0, 0, 1): {size / 1000:.0f} kB" in window.text(".chunk-map .readout")
    window.run("await page.keyboard.press('Enter'); await page.waitForSelector('.area')")
    assert "select=0,0:36,72:144" in window.run("return page.url()")


def test_damaged_chunks(window: Browser, url: str) -> None:
    window.open(f"{url}/view/station.h5/damaged?tab=chunks")
    window.run("await page.getByRole('button', { name: 'Check all chunks' }).click()")
    window.run("await page.waitForSelector('.swatch.bad')")
    assert "1 of 4 chunks are damaged" in window.text(".checking")
    red = window.run("""
        return page.evaluate(() => {
            const canvas = document.querySelector('.grid');
            return [...canvas.getContext('2d').getImageData(0, 1, 1, 1).data];
        })""")
    assert red[0] > 200 > 60 > red[1]
    window.open(f"{url}/view/station.h5/damaged")
    window.run("await page.waitForSelector('.problem')")
    assert "What to do" in window.text(".problem")


def test_a_terabyte(window: Browser, url: str) -> None:
    window.open(f"{url}/view/huge.zarr?tab=chunks")
    window.run("await page.waitForSelector('.chunk-map .legend')")
    assert "4 of 1 000 000 chunks are stored" in window.text(".chunk-map .legend")
    show(window, f"{url}/view/huge.zarr?select=0:500,0:500")
    point(window, 0, 250, 500, 500)
    window.wait("/\\[0, 2(49|50|51)\\]/.test(document.querySelector('.readout').textContent)")
    assert 0 < number(window.text(".readout .value")) < 0.01
    show(window, f"{url}/view/huge.zarr")


def test_lines(window: Browser, url: str) -> None:
    show(window, f"{url}/view/station.h5/level")
    label = window.run("return page.locator('.lines .chart').getAttribute('aria-label')")
    # One element of 200 000 is 9: no picture may lose it.
    assert "to 9" in label
    assert "200 000 elements" in window.text(".lines .buttons p")
    window.run("""
        const box = await page.locator('.u-over').boundingBox();
        await page.mouse.move(box.x + box.width * 0.2, box.y + 50);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.3, box.y + 60, { steps: 3 });
        await page.mouse.up();
    """)
    window.wait("/select=\\d+:\\d+/.test(location.search)")
    select = re.search(r"select=(\d+):(\d+)", window.run("return page.url()"))
    assert select
    assert 35_000 < int(select[1]) < 45_000
    assert 55_000 < int(select[2]) < 65_000


def test_tables_and_values(window: Browser, url: str, data: Path) -> None:
    show(window, f"{url}/view/station.h5/names")
    assert "gauge 49" in window.text(".table tbody")
    window.run("await page.getByRole('button', { name: 'Rows ›' }).click()")
    window.wait("document.querySelector('.table tbody').textContent.includes('gauge 99')")
    show(window, f"{url}/view/station.h5/gauges")
    assert window.text(".table thead").split() == ["axis", "0", "name", "height", "count"]
    assert window.text(".table tbody tr:nth-child(8)").split() == ["7", "g7", "1", "49"]
    show(window, f"{url}/view/station.h5/height")
    assert window.text(".scalar .large") == "12.25 m"
    show(window, f"{url}{SST}?tab=table&select=2,10:60,20:32")
    cells = window.run("""
        const cells = page.locator('.table tbody tr:first-child td');
        return cells.evaluateAll((all) => all.map((one) => one.textContent));
    """)
    expected = _sst(data).values[2, 10, 20:32]
    assert [cell == "missing" for cell in cells] == np.isnan(expected).tolist()
    known = [number(cell.replace("\u2212", "-")) for cell in cells if cell != "missing"]
    assert np.allclose(known, expected[np.isfinite(expected)], atol=1e-3)


def test_large_integers_are_exact(window: Browser, tmp_path: Path) -> None:
    values = np.array([[2**62 + 1, -(2**53) - 1], [7, 2**63 - 1]])
    zarr.create_array(str(tmp_path / "ints.zarr"), shape=(2, 2), dtype="i8")[:] = values
    with hs.serve(tmp_path / "ints.zarr") as server:
        show(window, f"{server.url}/view/ints.zarr?tab=table")
        assert window.text(".table tbody").split() == ["0", *map(str, values[0]), "1", *map(str, values[1])]
        show(window, f"{server.url}/view/ints.zarr")
        point(window, 0, 1, 2, 2)
        window.wait(f"document.querySelector('.readout').textContent.includes('{2**53 + 1}')")


@pytest.mark.parametrize(("part", "of"), [("abs", np.abs), ("phase", np.angle), ("imag", np.imag)])
def test_complex_numbers(window: Browser, url: str, data: Path, part: str, of: Any) -> None:
    with h5py.File(data / "station.h5") as file:
        wave = of(file["wave"][:])
    show(window, f"{url}/view/station.h5/wave?part={part}&range=all")
    ends = window.run("return page.locator('.bar-end').evaluateAll((all) => all.map((one) => +one.value))")
    expected = [-np.pi, np.pi] if part == "phase" else [wave.min(), wave.max()]
    assert np.allclose(ends, expected, atol=1e-3)


def test_search_and_errors(window: Browser, url: str) -> None:
    window.open(url)
    window.run("await page.waitForSelector('.tree a')")
    window.run("await page.keyboard.press('/'); await page.keyboard.type('gaug')")
    window.run("await page.waitForSelector('.results a')")
    assert window.text(".results").split()[0] == "station.h5/gauges"
    window.run("await page.keyboard.press('Enter'); await page.waitForSelector('.table table')")
    assert window.run("return page.url()") == f"{url}/view/station.h5/gauges"
    window.open(f"{url}/view/ocean.nc/none")
    window.run("await page.waitForSelector('.problem')")
    assert "nothing" in window.text(".problem") or "no array" in window.text(".problem")
    assert "What to do" in window.text(".problem")


def test_lines_of_python(window: Browser, url: str, data: Path) -> None:
    show(window, f"{url}{SST}?select=5,10:30,40:90")
    for at, title in enumerate(("hyperslab", "xarray")):
        window.run(f"await page.getByRole('button', {{ name: 'Copy the lines for {title}' }}).click()")
        text = window.run("return page.evaluate(() => navigator.clipboard.readText())")
        assert text == window.run(f"return page.locator('.python code').nth({at}).textContent()")
        names: dict[str, Any] = {}
        exec(text, names)
        expected = _sst(data).values[5, 10:30, 40:90]
        if title == "hyperslab":
            with h5py.File(data / "ocean.nc") as file:
                assert np.array_equal(names["values"], file["sst"][5, 10:30, 40:90])
        else:
            assert np.allclose(names["values"].values, expected, equal_nan=True)


def test_downloads(window: Browser, url: str, data: Path) -> None:
    show(window, f"{url}{SST}?select=5,10:30,40:90")
    window.run("await page.locator('summary', { hasText: 'Download' }).click()")
    links = window.run("return page.locator('.downloads a').evaluateAll((all) => all.map((one) => one.href))")
    assert [link.split("format=")[1] for link in links] == ["nc", "zarr.zip", "npy", "csv", "png"]
    for link in links:
        with urllib.request.urlopen(link) as answer:
            body = answer.read()
        assert len(body) > 100
        if "format=npy" in link:
            with h5py.File(data / "ocean.nc") as file:
                stored = file["sst"][5, 10:30, 40:90]
            found = np.load(io.BytesIO(body))
            assert found.shape == (20, 50)
            same = np.array_equal(found, stored)
            assert same or np.allclose(found, _sst(data).values[5, 10:30, 40:90], equal_nan=True)


@pytest.mark.parametrize("select", ["time=7", "-17", "7, ..., :", "7,:,:"])
def test_addresses_that_people_write(window: Browser, url: str, data: Path, select: str) -> None:
    show(window, f"{url}{SST}?select={select}")
    assert str(_sst(data).time.values[7])[:10] in window.text(".slider output")


def test_costs(window: Browser, url: str) -> None:
    show(window, f"{url}{SST}")
    window.run("await page.locator('summary', { hasText: 'Cost' }).click()")
    window.run("await page.waitForSelector('.cost dl')")
    facts = window.text(".cost dl").split("\n")
    assert facts[facts.index("chunks") + 1] == "4"
    assert facts[facts.index("bytes decoded") + 1] == "83 kB"
    window.run("await page.getByRole('button', { name: 'Compare other chunks' }).click()")
    window.run("await page.waitForSelector('.cost tbody tr')")
    assert "now" in window.text(".cost tbody")
    assert "hyperslab copy" in window.text(".cost pre")


def test_new_rows_appear(window: Browser, tmp_path: Path) -> None:
    place = str(tmp_path / "run.zarr")
    array = zarr.create_array(
        place, shape=(3, 8, 8), chunks=(1, 8, 8), dtype="f4", dimension_names=("step", "y", "x")
    )
    array[:] = np.arange(3)[:, None, None]
    with hs.serve(place) as server:
        show(window, f"{server.url}/view/run.zarr?select=2,:,:")
        array.resize((5, 8, 8))
        array[3:] = np.arange(3, 5)[:, None, None]
        window.wait("document.querySelector('.slider output')?.textContent.includes('4 / 4')")
        window.wait(LOADED)
        point(window, 2, 2, 8, 8)
        window.wait("document.querySelector('.readout .value')?.textContent === '4'")


def test_tokens_stay_out_of_the_address(window: Browser, data: Path) -> None:
    with hs.serve(data / "ocean.nc", token="s3cret") as server:
        window.open(f"{server.url}{SST}")
        window.run("await page.waitForSelector('.problem')")
        assert "token" in window.text(".problem")
        show(window, f"{server.url}{SST}?token=s3cret&map=magma")
        assert window.run("return page.url()") == f"{server.url}{SST}?map=magma"
        window.run("await page.reload()")
        window.wait(LOADED)


def test_behind_a_prefix(window: Browser, data: Path) -> None:
    with hs.serve(data / "ocean.nc", prefix="/data") as server:
        show(window, f"{server.url}{SST}")
        assert window.run("return page.url()").endswith("/data/view/ocean.nc/sst")


SCREENS = {
    "ocean": f"{SST}?select=3,:,:&marks=3,40,60%3B3,10,100&box=10:20,30:60",
    "chunks": f"{SST}?tab=chunks",
    "table": f"{SST}?tab=table",
    "group": "/view/ocean.nc",
    "cells": "/view/cells.zarr/0",
    "line": "/view/station.h5/level",
    "text": "/view/station.h5/names",
    "scalar": "/view/station.h5/height",
    "complex": "/view/station.h5/wave?part=phase&map=blue-red",
    "empty": "/view/station.h5/empty",
    "missing": "/view/ocean.nc/none",
}


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_screen_readers(window: Browser, url: str, look: str) -> None:
    """axe-core finds nothing in any screen. The screens are kept in build/screenshots."""
    found: list[str] = []
    for name, address in SCREENS.items():
        size = {"width": 360, "height": 780} if look == "phone" else {}
        window.open(url + address, dark=look == "dark", **size)
        window.run("""
            await page.waitForSelector('.side summary, .problem, .main .scroll');
            await page.locator('details').evaluateAll((all) => all.forEach((it) => (it.open = true)));
            await page.waitForLoadState('networkidle');
        """)
        window.screenshot(f"{name}-{look}")
        # Phones have the same elements in the same colours, and the dark page has only other colours.
        if look != "phone" or name == "ocean":
            only = ["color-contrast"] if look == "dark" else []
            found += [f"{name}: {violation}" for violation in window.violations(only)]
        wide = window.run("return page.evaluate(() => document.documentElement.scrollWidth - innerWidth)")
        if wide > 0:
            found.append(f"{name}: {wide} pixels wider than the screen")
        # The browser itself reports an answer that is an error.
        if name != "missing":
            found += [f"{name}: {problem}" for problem in window.problems]
    assert found == []


def test_keys_are_explained(window: Browser, url: str) -> None:
    show(window, f"{url}{SST}")
    window.run("await page.locator('.area').focus(); await page.keyboard.press('?')")
    window.run("await page.waitForSelector('dialog[open]')")
    assert "profiles" in window.text("dialog")
    assert window.violations() == []
    window.run("await page.keyboard.press('Escape'); await page.locator('.area').focus()")
    window.run("await page.keyboard.press('ArrowRight')")
    window.wait("document.querySelector('[role=status]')?.textContent.includes('lat')")
    window.run("await page.keyboard.press('Enter')")
    window.run("await page.waitForSelector('.chips .dot')")
