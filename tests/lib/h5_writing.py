"""Generated files of HDF5, made by `hyperslab.h5` and by h5py with the same calls.

A case is plain data: types, values and calls do not depend on the module that executes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from hypothesis import strategies as st

# ---- types


@dataclass(frozen=True)
class Kind:
    """An element type, and values of it."""

    what: str
    of: Any = None

    def dtype(self, m: Any) -> np.dtype[Any]:
        if self.what == "plain":
            return np.dtype(self.of)
        if self.what == "text":
            return m.string_dtype(*self.of)
        if self.what == "enum":
            return m.enum_dtype(dict(self.of[1]), self.of[0])
        if self.what == "opaque":
            return m.opaque_dtype(self.of)
        if self.what == "vlen":
            return m.vlen_dtype(self.of.dtype(m))
        if self.what == "array":
            return np.dtype((self.of[0].dtype(m), self.of[1]))
        return np.dtype([(name, kind.dtype(m)) for name, kind in self.of])

    def value(self, m: Any, rng: np.random.Generator) -> Any:
        """Return one value, as h5py takes it in an array of objects or structures."""
        if self.what == "text":
            letters = "abcé" if self.of[0] == "utf-8" else "abc"
            text = "".join(rng.choice(list(letters), rng.integers(0, 6)))
            if len(self.of) > 1 and self.of[1] is not None:
                return text.encode()[: self.of[1]]
            return text if self.of[0] == "utf-8" else text.encode()
        if self.what == "vlen":
            return self.of.array(m, (int(rng.integers(0, 4)),), rng)
        if self.what == "compound":
            return tuple(kind.value(m, rng) for _, kind in self.of)
        return self.array(m, (), rng)[()]

    def array(self, m: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
        dtype = self.dtype(m)
        if self.what == "plain" and dtype.kind in "iufcb":
            raw = rng.integers(-100, 100, shape) if dtype.kind != "b" else rng.integers(0, 2, shape)
            return np.asarray(raw).astype(dtype)
        if self.what in ("plain", "opaque"):
            count = int(np.prod(shape)) * dtype.itemsize
            raw = (
                rng.integers(97, 123, count, np.uint8)
                if dtype.kind in "SV"
                else rng.integers(0, 9, count, np.uint8)
            )
            return np.frombuffer(raw.tobytes(), dtype.str).reshape(shape).astype(dtype)
        if self.what == "enum":
            return rng.choice([value for _, value in self.of[1]], shape).astype(dtype)
        if self.what == "array":
            return self.of[0].array(m, (*shape, *self.of[1]), rng)
        made = np.empty(shape, dtype)
        for place in np.ndindex(*shape):
            if self.what == "compound":
                for name, kind in self.of:
                    made[name][place] = kind.value(m, rng)
            else:
                made[place] = self.value(m, rng)
        return made


PLAIN = ["i1", "<u2", ">i4", "<i8", ">u8", "f2", "<f4", ">f8", "c8", ">c16", "?", "S3", "V5", "g"]
plain = st.sampled_from(PLAIN).map(lambda text: Kind("plain", text))
texts = st.sampled_from([("utf-8",), ("ascii",), ("utf-8", 8), ("ascii", 5)]).map(lambda of: Kind("text", of))
enums = st.sampled_from(
    [("u1", (("b", 1), ("a", 0))), ("<i2", (("X", -3), ("y", 7))), (">i4", (("n", 70000), ("m", 0)))]
).map(lambda of: Kind("enum", of))
opaque = st.sampled_from(["<M8[s]", "<m8[ms]"]).map(lambda of: Kind("opaque", of))
leaves = plain | texts | enums | opaque


def _compound(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    members = st.lists(inner, min_size=1, max_size=4)
    return members.map(
        lambda kinds: Kind("compound", tuple((f"m{n}é"[: 2 + n % 2], kind) for n, kind in enumerate(kinds)))
    )


def _small(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    return st.tuples(inner, st.sampled_from([(2,), (2, 3)])).map(lambda of: Kind("array", of))


fixed = plain | enums
kinds = st.one_of(
    leaves,
    st.sampled_from([Kind("plain", text) for text in ("<i4", ">f8", "c8")] + [Kind("text", ("utf-8",))]).map(
        lambda kind: Kind("vlen", kind)
    ),
    _compound(leaves | _small(fixed) | _compound(leaves)),
)

# ---- calls


def _is_hard(m: Any, file: Any, path: str) -> bool:
    """Return True if only hard links lead to an object."""
    parts = path.strip("/").split("/")
    for n in range(len(parts)):
        above = "/".join(parts[: n + 1])
        if above and (above not in file or not isinstance(file.get(above, getlink=True), m.HardLink)):
            return False
    return True


def _is_free(m: Any, file: Any, path: str) -> bool:
    """Return True if an object can be made at a path."""
    parts = path.split("/")
    for n in range(len(parts)):
        above = "/".join(parts[: n + 1])
        if above in file and n == len(parts) - 1:
            return False
        if above in file and not (_is_hard(m, file, above) and isinstance(file[above], m.Group)):
            return False
    return True


@dataclass
class Calls:
    """Calls that make a file."""

    seed: int
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def run(self, m: Any, file: Any) -> None:
        rng = np.random.default_rng(self.seed)
        for name, *arguments in self.calls:
            getattr(self, f"_{name}")(m, file, rng, *arguments)

    def _group(self, m: Any, file: Any, rng: Any, path: str, tracked: bool) -> None:
        if _is_free(m, file, path):
            file.create_group(path, track_order=tracked)

    def _dataset(self, m: Any, file: Any, rng: Any, path: str, kind: Kind, shape: Any, options: Any) -> None:
        data = kind.array(m, shape, rng)
        has_data = rng.random() < 0.7
        if not _is_free(m, file, path):
            return
        options = dict(options)
        if shape == ():
            options = {}
        if kind.what == "vlen" or kind.of in (("utf-8",), ("ascii",)):
            # HDF5 has no checksums of elements of variable length.
            options.pop("fletcher32", None)
        if "maxshape" in options:
            options["maxshape"] = (None,) * len(shape)
        if "chunks" in options and options["chunks"] is not True:
            options["chunks"] = (
                tuple(min(chunk, n) for chunk, n in zip(options["chunks"], shape)) if all(shape) else True
            )
        if has_data:
            file.create_dataset(path, data=data, dtype=kind.dtype(m), **options)
        else:
            file.create_dataset(path, shape, kind.dtype(m), **options)

    def _attribute(self, m: Any, file: Any, rng: Any, path: str, name: str, kind: Kind, shape: Any) -> None:
        data = kind.array(m, shape, rng)
        if _is_hard(m, file, path):
            file[path].attrs.create(name, data, dtype=kind.dtype(m))

    def _soft(self, m: Any, file: Any, rng: Any, path: str, to: str) -> None:
        if _is_free(m, file, path):
            file[path] = m.SoftLink(to)

    def _external(self, m: Any, file: Any, rng: Any, path: str, to: str) -> None:
        if _is_free(m, file, path):
            file[path] = m.ExternalLink("other.h5", to)

    def _hard(self, m: Any, file: Any, rng: Any, path: str, to: str) -> None:
        if _is_free(m, file, path) and _is_hard(m, file, to):
            file[path] = file[to]

    def _type(self, m: Any, file: Any, rng: Any, path: str, kind: Kind) -> None:
        if _is_free(m, file, path):
            file[path] = kind.dtype(m)

    def _delete(self, m: Any, file: Any, rng: Any, path: str) -> None:
        if _is_hard(m, file, path):
            del file[path]

    def _delete_attribute(self, m: Any, file: Any, rng: Any, path: str) -> None:
        if _is_hard(m, file, path):
            for name in list(file[path].attrs)[:1]:
                del file[path].attrs[name]

    def _move(self, m: Any, file: Any, rng: Any, path: str, to: str) -> None:
        if _is_hard(m, file, path) and _is_free(m, file, to) and not to.startswith(path + "/"):
            file.move(path, to)

    def _copy(self, m: Any, file: Any, rng: Any, path: str, to: str) -> None:
        if _is_hard(m, file, path) and _is_free(m, file, to) and not to.startswith(path + "/"):
            file.copy(path, to)


names = st.sampled_from(["a", "b", "c", "é", "a/x", "b/y", "a/x/z", "c/x"])
shapes = st.sampled_from([(), (1,), (5,), (0,), (3, 4), (2, 0), (2, 3, 2)])
options = st.fixed_dictionaries(
    {},
    optional={
        "chunks": st.just((2, 2, 2)) | st.just(True),
        "compression": st.sampled_from(["gzip", "lzf", 7]),
        "shuffle": st.booleans(),
        "fletcher32": st.booleans(),
        "maxshape": st.just(True),
        "track_order": st.booleans(),
    },
)
calls = st.one_of(
    st.tuples(st.just("group"), names, st.booleans()),
    st.tuples(st.just("dataset"), names, kinds, shapes, options),
    st.tuples(
        st.just("attribute"), names | st.just("/"), st.sampled_from(["p", "q", "ü", "r"]), kinds, shapes
    ),
    st.tuples(st.just("soft"), names, names.map("/".__add__)),
    st.tuples(st.just("external"), names, names),
    st.tuples(st.just("hard"), names, names),
    st.tuples(st.just("type"), names, kinds),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("delete_attribute"), names),
    st.tuples(st.just("move"), names, names),
    st.tuples(st.just("copy"), names, names),
)
cases = st.builds(Calls, st.integers(0, 2**32 - 1), st.lists(calls, max_size=12))

# ---- what is in a file


def _shown(value: Any, file: h5py.File) -> Any:
    """Return a value that can be compared. References are the paths of their targets."""
    if isinstance(value, h5py.Empty):
        return "empty", str(value.dtype)
    if isinstance(value, (h5py.Reference, h5py.RegionReference)):
        return "reference", h5py.h5r.get_name(value, file.id) if value else None
    if isinstance(value, (str, bytes)):
        return value
    value = np.asarray(value)
    if value.dtype.names is not None:
        return tuple((name, _shown(value[name], file)) for name in value.dtype.names)
    if value.dtype.kind == "O":
        return value.shape, [_shown(one, file) for one in value.reshape(-1)]
    if value.dtype.kind in "fc" and value.dtype.itemsize in (16, 32):
        # The padding of long doubles is arbitrary.
        return value.shape, str(value.dtype), value.tolist()
    return value.shape, str(value.dtype), value.tobytes()


def _type(dtype: np.dtype[Any]) -> Any:
    notes = None if dtype.metadata is None else {key: str(value) for key, value in dtype.metadata.items()}
    fields = (
        None
        if dtype.fields is None
        else [(name, *map(str, dtype.fields[name])) for name in dtype.names or ()]
    )
    return str(dtype), notes, fields, h5py.h5t.py_create(dtype, logical=True).encode()


def _parameters(node: h5py.Dataset) -> Any:
    """Return the parameters of filters. HDF5 2.0 leaves them out for elements of variable length."""
    if h5py.check_vlen_dtype(node.dtype) is not None:
        return None
    return [node.id.get_create_plist().get_filter(n)[:3] for n in range(len(node.filter_ids))]


def described(file: h5py.File) -> dict[str, Any]:
    """Return everything in a file, as h5py reads it."""
    found: dict[str, Any] = {}

    def attributes(node: Any) -> Any:
        return [
            (
                name,
                _shown(node.attrs[name], file),
                _type(node.attrs.get_id(name).dtype),
                node.attrs.get_id(name).shape,
            )
            for name in node.attrs
        ]

    def walk(group: h5py.Group, above: str) -> None:
        found[above] = "group", list(group), attributes(group)
        for name in group:
            path, link = f"{above}/{name}", group.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                found[path] = "soft", link.path
            elif isinstance(link, h5py.ExternalLink):
                found[path] = "external", link.filename, link.path
            elif isinstance(group[name], h5py.Group):
                node = group[name]
                if len(path) < 40:
                    walk(node, path)
            elif isinstance(group[name], h5py.Datatype):
                node = group[name]
                found[path] = "type", _type(node.dtype), attributes(node)
            else:
                node = group[name]
                space = None if node.shape is None else node.maxshape
                fill = None if node.dtype.hasobject else _shown(node.fillvalue, file)
                values = _shown(node[()], file) if node.shape is not None else None
                found[path] = (
                    "dataset",
                    node.shape,
                    space,
                    _type(node.dtype),
                    node.chunks,
                    node.filter_ids,
                    _parameters(node),
                    fill,
                    values,
                    attributes(node),
                )

    walk(file, "")
    return found
