"""Changes of damaged HDF5 files, in a process of its own: the HDF5 library may crash there, too.

Called as ``python h5_edits.py FILE…``. Prints a line before each step, and the verdict after each
file.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np

# Memory that a file may take. The files have some kilobytes.
MEMORY = 1 << 30

# Seconds of the processor that a step may take. The files have some kilobytes.
SECONDS = 2

# Datasets of more bytes are not read.
LARGE = 1 << 22

# The errors of h5py's names for bad input.
ERRORS = (hs.HyperslabError, OSError, ValueError, KeyError, TypeError, RuntimeError)

# The names of new attributes, links and groups.
ATTRIBUTE, LINK, GROUP = "~attribute", "~link", "~group"


class Unreadable:
    """Remembers that the HDF5 library could not read something."""

    found = False


@contextlib.contextmanager
def attempt() -> Iterator[None]:
    """Note and ignore errors of the HDF5 library."""
    try:
        yield
    except Exception:
        Unreadable.found = True


def seen(path: str, backwards: bool = False) -> dict[str, Any] | None:
    """Return what h5py reads of each object, by path. ``None``: it cannot open the file.

    ``backwards``: it reads the members of a group in the other order.
    """
    found: dict[str, Any] = {}
    try:
        file = h5py.File(path, "r")
    except OSError:
        return None
    with file:
        waiting, known = ["/"], set[int]()
        while waiting:
            name = waiting.pop()
            address = None
            with attempt():
                node = file[name]
                address = h5py.h5o.get_info(node.id).addr
            if address is None:
                continue
            if address in known or len(known) > 100:
                continue
            known.add(address)
            found[name] = {"address": address, **_facts(node, file)}
            if isinstance(node, h5py.Group):
                with attempt():
                    for below in reversed(list(node)) if backwards else list(node):
                        if isinstance(node.get(below, getlink=True), h5py.HardLink):
                            waiting.append(f"{name.rstrip('/')}/{below}")
    return found


def stable(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the facts that are equal in both. The HDF5 library may read memory at random."""
    if one is None or other is None:
        return None
    by_address = {facts["address"]: facts for facts in other.values()}

    def is_equal(facts: dict[str, Any], what: str) -> bool:
        return what == "address" or same(facts[what], by_address.get(facts["address"], {}).get(what))

    return {
        name: {what: facts[what] for what in facts if is_equal(facts, what)} for name, facts in one.items()
    }


def _facts(node: Any, file: h5py.File) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    with attempt():
        for name in list(node.attrs):
            with attempt():
                facts[f"attribute {name}"] = shown(node.attrs[name], file)
    if isinstance(node, h5py.Group):
        with attempt():
            facts["links"] = {name: type(node.get(name, getlink=True)).__name__ for name in node}
    elif isinstance(node, h5py.Dataset):
        with attempt():
            facts["shape"] = node.shape
            if node.size is not None and node.size * max(node.dtype.itemsize, 1) < LARGE:
                facts["values"] = shown(node[()], file)
    return facts


def shown(value: Any, file: h5py.File | None) -> Any:
    """Return a value that can be compared. References are the addresses of their targets."""
    if file is not None and isinstance(value, h5py.Reference | h5py.RegionReference):
        return h5py.h5o.get_info(h5py.h5r.dereference(value, file.id)).addr if value else None
    if isinstance(value, h5py.Empty | str | bytes):
        return repr(value)
    value = np.asarray(value)
    if value.dtype.names is not None:
        return [(name, shown(value[name], file)) for name in value.dtype.names]
    if value.dtype.kind == "O":
        return value.shape, [shown(one, file) for one in value.reshape(-1)]
    return value.shape, str(value.dtype), value.tobytes()


def changed(path: str, before: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Change objects in all ways. Return the changes that succeeded, by path."""
    done: dict[str, dict[str, Any]] = {name: {} for name in before}
    with hs.File(path, "r+") as file:
        for name in before:
            made = done[name]
            with contextlib.suppress(*ERRORS):
                node = file[name]
            with contextlib.suppress(*ERRORS):
                node.attrs[ATTRIBUTE] = 1234
                made["attribute"] = True
            if isinstance(node, hs.FileGroup):
                if len(name) % 3 == 2:
                    with contextlib.suppress(*ERRORS):
                        first = next(iter(node), None)
                        if first is not None:
                            # The link may be gone although its object turns out to be damaged.
                            made["deleted"] = first
                            del node[first]
                with contextlib.suppress(*ERRORS):
                    node[LINK] = hs.SoftLink("/")
                    made["link"] = True
                with contextlib.suppress(*ERRORS):
                    node.create_group(GROUP)
                    made["group"] = True
            elif isinstance(node, hs.FileArray) and node.size and node.size * node.dtype.itemsize < LARGE:
                # A change that fails may have changed some of the elements.
                with contextlib.suppress(*ERRORS):
                    values = node[()]
                    # The HDF5 library may find other chunks in a damaged index.
                    is_plain = h5py.check_ref_dtype(node.dtype) is None and not node.dtype.names
                    if is_plain and same(shown(values, None), before[name].get("values")):
                        made["values"] = None
                        node[...] = values
                        made["values"] = True
                with contextlib.suppress(*ERRORS):
                    longer = tuple(n + 1 for n in node.shape)
                    if node.chunks is not None:
                        node.resize(longer)
                        made["shape"] = longer
    return done


def check(before: dict[str, Any], after: dict[str, Any] | None, done: dict[str, dict[str, Any]]) -> None:
    """Compare what h5py reads with what it read before."""
    assert after is not None, "h5py does not open the file any more"
    gone = [f"{name.rstrip('/')}/{made['deleted']}" for name, made in done.items() if "deleted" in made]
    for name, old in before.items():
        if any(name == path or name.startswith(path + "/") for path in gone):
            continue
        made = done.get(name, {})
        # A changed group has its links in order, so another path may come first.
        new = next((new for new in after.values() if new["address"] == old["address"]), None)
        assert new is not None or gone, f"{name} is gone"
        if new is None:
            continue
        for what, value in old.items():
            if what == "values" and (made.get("values", True) is None or "shape" in made):
                continue
            if what == "shape" and "shape" in made:
                assert new.get(what) == made["shape"], (name, what, new.get(what), made)
                continue
            if what == "links":
                assert "links" in new, f"{name}: the links are gone"
                deleted = made.get("deleted")
                rest = {link: kind for link, kind in value.items() if link != deleted and kind != "NoneType"}
                assert rest.items() <= new["links"].items(), (name, rest, new["links"])
                continue
            assert what in new and same(new[what], value), (name, what, value, new.get(what))
        if made.get("attribute") and any(key.startswith("attribute") for key in old):
            assert f"attribute {ATTRIBUTE}" in new, f"{name}: the new attribute is missing"
        if "links" in old:
            for key, link in (("link", LINK), ("group", GROUP)):
                assert not made.get(key) or link in new["links"], f"{name}: {link} is missing"


def same(found: Any, expected: Any) -> bool:
    """Return True if values are equal. NaN is equal to itself."""
    return repr(found) == repr(expected)


def step(name: str) -> None:
    """Tell the parent what begins, and limit its time: the process dies if it takes longer."""
    print(name, flush=True)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + SECONDS, resource.RLIM_INFINITY))


def main(paths: list[str]) -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, limit))
    np.seterr(all="ignore")
    for path in paths:
        step(f"before {path}")
        Unreadable.found = False
        before = stable(seen(path), seen(path, True))
        if before is None:
            print("done", flush=True)
            continue
        step("change")
        try:
            done = changed(path, before)
        except ERRORS as error:
            # Opening or closing failed: the file is as it was, or whole.
            done = {}
            print(f"error {type(error).__name__}", flush=True)
        # The library may hang in what it could not read before: the file is longer now, so a damaged
        # length may be inside it.
        step("after, damaged" if Unreadable.found else "after")
        after = seen(path)
        try:
            check(before, after, done) if done else check_unchanged(before, after)
        except AssertionError as error:
            print(f"WORSE {str(error)[:600]}", flush=True)
        print("done", flush=True)


def check_unchanged(before: dict[str, Any], after: dict[str, Any] | None) -> None:
    assert after is not None, "h5py does not open the file any more"
    for name, old in before.items():
        for what, value in old.items():
            found = after.get(name, {}).get(what)
            assert what == "links" or same(found, value), (name, what, value, found)


if __name__ == "__main__":
    main(sys.argv[1:])
