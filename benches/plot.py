"""Draws the results: speed of each contender as a multiple of hyperslab's."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

from contenders import PEERS
from report import Result, Results, medians, name_of

WIDTH = 61
LETTERS = {
    "zarr": "z",
    "fused": "f",
    "zarrs": "s",
    "zarrista": "a",
    "tensorstore": "t",
    "h5py": "h",
    "netcdf4": "n",
    "pyfive": "5",
    "processes": "p",
    "without": "w",
}
# From a hundred times slower than hyperslab to four times faster.
LOW, HIGH = 1 / 100, 4.0


def speeds(result: Result) -> dict[str, float]:
    """Returns the speed of each contender and of the limit, relative to hyperslab."""
    times = medians(result)
    ours = times.get("hyperslab")
    return {} if ours is None else {name: ours / seconds for name, seconds in times.items()}


def position(speed: float, width: int) -> int:
    """Returns the column of a speed on the logarithmic axis."""
    share = math.log(min(max(speed, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return round(share * (width - 1))


def terminal(results: Results) -> str:
    """Returns one line per case. Further right is faster."""
    shown = [result for result in results["cases"] if speeds(result)]
    if not shown:
        return ""
    margin = max(len(name_of(result)) for result in shown)
    lines = []
    for result in shown:
        line = ["·"] * WIDTH
        found = speeds(result)
        for name, letter in LETTERS.items():
            if name in found:
                line[position(found[name], WIDTH)] = letter
        if "limit" in found:
            line[position(found["limit"], WIDTH)] = "│"
        line[position(1, WIDTH)] = "█"
        lines.append(f" {name_of(result).ljust(margin)}  {''.join(line)}")
    axis = [" "] * (WIDTH + 4)
    for speed, text in ((0.01, "1/100"), (0.1, "1/10"), (1, "1"), (4, "4×")):
        at = position(speed, WIDTH)
        axis[at : at + len(text)] = text
    legend = "  ".join(f"{letter} {name}" for name, letter in LETTERS.items())
    return "\n".join(
        [*lines, f" {' ' * margin}  {''.join(axis).rstrip()}", f" █ hyperslab  {legend}  │ limit"]
    )


STYLES = {
    "zarr": ("#7f7f7f", "o"),
    "fused": ("#1f77b4", "s"),
    "zarrs": ("#ff7f0e", "^"),
    "zarrista": ("#2ca02c", "D"),
    "tensorstore": ("#9467bd", "v"),
    "h5py": ("#7f7f7f", "P"),
    "netcdf4": ("#17becf", "X"),
    "pyfive": ("#bcbd22", "*"),
    "processes": ("#8c564b", "d"),
}


def picture(results: Results, path: Path) -> None:
    """Draws all cases in two columns: one marker per contender, a stroke for the limit."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [result for result in results["cases"] if speeds(result)]
    if not shown:
        return
    halves = split(shown)
    height = 1.6 + 0.21 * max(len(half) for half in halves)
    figure, axes = pyplot.subplots(1, len(halves), figsize=(8.2 * len(halves), height), squeeze=False)
    for axis, half in zip(axes[0], halves, strict=True):
        draw(axis, half)
    unique: dict[str, object] = {}
    for axis in axes[0]:
        handles, labels = axis.get_legend_handles_labels()
        unique |= dict(zip(labels, handles, strict=True))
    everybody = itertools.chain.from_iterable(PEERS.values())
    order = [name for name in ("hyperslab", *everybody, "limit") if name in unique]
    figure.legend(
        [unique[name] for name in order], order, loc="upper center", ncols=len(order), frameon=False
    )
    figure.supxlabel("speed as a multiple of hyperslab's: to the right is faster", fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.45 / height))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def split(shown: list[Result]) -> list[list[Result]]:
    """Splits the cases into two columns of almost equal length, without splitting a row."""
    if len(shown) < 20:
        return [shown]
    borders = [at for at in range(1, len(shown)) if shown[at]["row"] != shown[at - 1]["row"]]
    middle = min(borders or [len(shown) // 2], key=lambda at: abs(at - len(shown) / 2))
    return [shown[:middle], shown[middle:]]


def draw(axis: object, shown: list[Result]) -> None:
    """Draws one column."""
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    axis.set_xscale("log")
    axis.axvline(1, color="#d62728", linewidth=2.2, label="hyperslab", zorder=2)
    for number, result in enumerate(shown):
        if number % 2:
            axis.axhspan(number - 0.5, number + 0.5, color="#f4f4f4", zorder=0)
        found = speeds(result)
        for name, (colour, shape) in STYLES.items():
            if name in found:
                axis.plot(found[name], number, shape, color=colour, markersize=5, label=name, zorder=3)
        if "limit" in found:
            x = found["limit"]
            axis.plot(
                [x, x], [number - 0.45, number + 0.45], color="black", linewidth=2, label="limit", zorder=4
            )
    axis.set_yticks(range(len(shown)), [name_of(result) for result in shown], fontsize=8)
    axis.set_ylim(len(shown) - 0.5, -0.5)
    ticks = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]
    low = min(min(speeds(result).values()) for result in shown)
    high = max(max(speeds(result).values()) for result in shown)
    axis.set_xlim(low / 1.3, max(high, 2) * 1.3)
    inside = [tick for tick in ticks if low / 1.3 <= tick <= max(high, 2) * 1.3]
    axis.set_xticks(inside, [f"1/{round(1 / t)}" if t < 0.5 else f"{t:g}×" for t in inside])
    axis.minorticks_off()
    axis.grid(axis="x", color="#dddddd", zorder=1)
    axis.spines[["top", "right"]].set_visible(False)
