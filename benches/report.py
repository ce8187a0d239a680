"""Formats the results as tables, from the content of the JSON file."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import Any

from common import MIB, bytes_text, seconds_text, table
from contenders import PEERS

# The results of one case and of one run.
Result = dict[str, Any]
Results = dict[str, Any]

# How much slower the next case of a series may be: the difference between two equal runs.
NOISE = 1.05
LIMITS = ("limit", "limit 2 threads")


def medians(result: Result) -> dict[str, float]:
    """Returns the median time of a sample by contender. The better way of the limit is "limit"."""
    found = {name: statistics.median(times) for name, times in result["seconds"].items() if times}
    limit = [found.pop(name) for name in LIMITS if name in found]
    return found | ({"limit": min(limit)} if limit else {})


def per_call(result: Result) -> float | None:
    """Returns hyperslab's time for one call."""
    ours = medians(result).get("hyperslab")
    return None if ours is None else ours / result["calls"]


def peers(result: Result) -> tuple[str, ...]:
    """Returns the peers of hyperslab in a case."""
    return PEERS[result["format"]]


def by_format(results: Results) -> list[tuple[tuple[str, ...], list[Result]]]:
    """Returns the cases of each format that has cases, with the format's peers."""
    groups = [
        (names, [result for result in results["cases"] if peers(result) == names]) for names in PEERS.values()
    ]
    return [(names, found) for names, found in groups if found]


def best_peer(result: Result) -> tuple[str, float] | None:
    """Returns the fastest of the other libraries and its time."""
    times = {name: seconds for name, seconds in medians(result).items() if name in peers(result)}
    return min(times.items(), key=lambda pair: pair[1]) if times else None


def factor(result: Result, against: str) -> float | None:
    """Returns hyperslab's speed as a multiple of `against`."""
    times = medians(result)
    peer = best_peer(result)
    theirs = (peer[1] if peer else None) if against == "peer" else times.get(against)
    ours = times.get("hyperslab")
    return None if theirs is None or ours is None else theirs / ours


def met(result: Result, target: dict[str, Any]) -> bool | None:
    """Returns true if a target is reached, or None if it was not measured."""
    if target["against"] == "seconds":
        seconds = per_call(result)
        return None if seconds is None else seconds <= target["value"]
    if target["against"] == "memory":
        peak = (result.get("memory") or {}).get("hyperslab")
        return None if not isinstance(peak, int) else peak <= result["bytes"] + target["value"]
    found = factor(result, target["against"])
    # Compares the rounded values, as shown: 0.897 is 0.90.
    return None if found is None else round(found, 2) >= round(target["value"], 2)


def target_text(target: dict[str, Any]) -> str:
    """Formats a target: `limit ≥ 0.90`, `≤ 5 µs` or `memory ≤ result + 64 MiB`."""
    if target["against"] == "memory":
        return f"memory ≤ result + {target['value'] / MIB:.0f} MiB"
    if target["against"] == "seconds":
        return f"≤ {seconds_text(target['value'])}"
    return f"{target['against']} ≥ {target['value']:.2f}"


def mark(reached: bool | None) -> str:
    """Returns ✓, ✗, or – if nothing was measured."""
    return {True: "✓", False: "✗", None: "–"}[reached]


def factor_text(value: float | None) -> str:
    """`1.23×`"""
    if value is None:
        return "–"
    return f"{value:.2f}×" if value < 99.5 else f"{value:.0f}×"


def rate_text(result: Result) -> str:
    """Returns hyperslab's gigabytes per second, or – below 10 kB per call."""
    seconds = medians(result).get("hyperslab")
    if seconds is None or result["bytes"] / result["calls"] < 10_000:
        return "–"
    return f"{result['bytes'] / seconds / 1e9:.2f}"


def summary_line(result: Result) -> list[str]:
    """Returns one case compared with the best peer and the limit."""
    seconds, peer = per_call(result), best_peer(result)
    extra = next((name for name in ("without", "native") if name in result["seconds"]), None)
    return [
        name_of(result),
        seconds_text(seconds) if seconds is not None else result["cannot"].get("hyperslab", "–"),
        rate_text(result),
        f"{factor_text(factor(result, 'peer'))} {peer[0]}" if peer and seconds is not None else "–",
        factor_text(factor(result, "limit")),
        f"{factor_text(factor(result, extra))} {extra}" if extra and seconds is not None else "",
        ", ".join(map(target_text, result["targets"])),
        " ".join(mark(met(result, target)) for target in result["targets"]),
    ]


SUMMARY_HEADER = ["row", "per call", "GB/s", "best peer", "limit", "beside", "to reach", "met"]


def name_of(result: Result) -> str:
    """Returns row and variant."""
    return f"{result['row']}: {result['variant']}"


def summary(results: Results, *, markdown: bool) -> str:
    """Returns hyperslab in every row, beside the best peer, the limit and the targets."""
    return table(SUMMARY_HEADER, [summary_line(result) for result in results["cases"]], markdown=markdown)


class Footnotes:
    """Numbered reasons."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        """Returns the mark for the table."""
        return f"[{self.numbers.setdefault(text, len(self.numbers) + 1)}]"

    def lines(self) -> list[str]:
        """Returns the lines below the table."""
        return [f"[{number}] {text}" for text, number in self.numbers.items()]


def everybody(results: Results, *, markdown: bool) -> str:
    """Returns the time of each contender in every row, as a multiple of hyperslab's."""
    return "\n\n".join(everybody_of(names, found, markdown) for names, found in by_format(results))


def everybody_of(names: tuple[str, ...], results: list[Result], markdown: bool) -> str:
    """Returns the table of one format."""
    notes = Footnotes()
    others = [*names, "without", "native", "limit"]

    def cell(result: Result, name: str) -> str:
        if name in medians(result):
            return factor_text(factor(result, name))
        return notes.mark(result["cannot"][name]) if name in result["cannot"] else "–"

    lines = []
    for result in results:
        seconds = per_call(result)
        ours = notes.mark(result["cannot"]["hyperslab"]) if seconds is None else seconds_text(seconds)
        lines.append([name_of(result), ours, *(cell(result, name) for name in others)])
    text = table(["row", "hyperslab", *others], lines, markdown=markdown)
    break_ = "  \n" if markdown else "\n"
    return text + ("\n\n" + break_.join(notes.lines()) if notes.numbers else "")


def series(results: Results, *, markdown: bool) -> str:
    """Returns the time per unit of work as work or threads grow. Empty if not measured."""
    found: dict[str, list[tuple[int, float]]] = {}
    for result in results["cases"]:
        seconds = medians(result).get("hyperslab")
        if result["series"] and seconds is not None:
            name, count = result["series"]
            # `calls` already counts the calls of all threads.
            units = result["calls"] if result["row"] == "threads" else count
            found.setdefault(name, []).append((count, seconds / units))
    lines = []
    for name, points in found.items():
        falls = all(after <= before * NOISE for (_, before), (_, after) in pairwise(points))
        shown = ", ".join(f"{count}: {seconds_text(seconds)}" for count, seconds in points)
        lines.append([name, shown, mark(falls) if len(points) > 1 else "–"])
    return (
        table(["hyperslab, by number of chunks or threads", "time", "never rises"], lines, markdown=markdown)
        if lines
        else ""
    )


def memory(results: Results, *, markdown: bool) -> str:
    """Returns the peak memory beyond importing and opening. Empty if not measured."""
    texts = (memory_of(names, found, markdown) for names, found in by_format(results))
    return "\n\n".join(text for text in texts if text)


def memory_of(names: tuple[str, ...], results: list[Result], markdown: bool) -> str:
    """Returns the table of one format."""
    notes = Footnotes()
    lines = []
    for result in results:
        peaks = result.get("memory")
        if not peaks:
            continue
        line = [name_of(result), bytes_text(result["bytes"] / result["calls"])]
        for name in ("hyperslab", *names):
            peak = peaks.get(name)
            if isinstance(peak, str):
                line.append(notes.mark(peak))
            else:
                line.append("–" if peak is None else f"{peak / MIB:.1f}")
        lines.append(line)
    if not lines:
        return ""
    text = table(["row", "bytes of a call", "hyperslab, MiB", *names], lines, markdown=markdown)
    break_ = "  \n" if markdown else "\n"
    return text + ("\n\n" + break_.join(notes.lines()) if notes.numbers else "")


def tables(results: Results, *, markdown: bool) -> list[tuple[str, str]]:
    """Returns all non-empty tables with their titles. The first is the summary."""
    found = [
        ("Summary", summary(results, markdown=markdown)),
        ("More chunks, elements or threads", series(results, markdown=markdown)),
        ("Times of the other contenders, as multiples of hyperslab's", everybody(results, markdown=markdown)),
        (
            "Peak memory in MiB, beyond the imported library and the open array",
            memory(results, markdown=markdown),
        ),
    ]
    return [(title, text) for title, text in found if text]


def rows_about(results: Results) -> str:
    """Returns a Markdown table with the description of each case."""
    lines = [[name_of(result), result["about"] + cold_text(result)] for result in results["cases"]]
    return table(["row", "what is done"], lines, markdown=True, left=2)


def cold_text(result: Result) -> str:
    """Returns how the caches were dropped."""
    return f"; cold ({result['cold']})" if result["cold"] else ""
