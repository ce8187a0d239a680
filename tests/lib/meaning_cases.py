"""Datasets of every kind that xarray, netCDF4 and h5netcdf write, for tests of files' meaning.

Every file has every kind of variable that it can hold. Sizes, values and options are drawn from a
seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cftime
import h5netcdf
import netCDF4
import numpy as np
import xarray as xr
import zarr

CLASSIC = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA")
CALENDARS = ("standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day")


@dataclass
class Made:
    """A dataset under construction, and how to store its variables."""

    rng: np.random.Generator
    kind: str
    variables: dict[str, Any] = field(default_factory=dict)
    coordinates: dict[str, Any] = field(default_factory=dict)
    encodings: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, dims: tuple[str, ...], values: Any, attrs: Any = None, **encoding: Any) -> None:
        self.variables[name] = (dims, values, dict(attrs or {}))
        self.encodings[name] = encoding

    def coordinate(
        self, name: str, dims: tuple[str, ...], values: Any, attrs: Any = None, **encoding: Any
    ) -> None:
        self.coordinates[name] = (dims, values, dict(attrs or {}))
        self.encodings[name] = encoding


def holes(rng: np.random.Generator, values: Any) -> Any:
    """Replaces a quarter of the floats by NaN."""
    return np.where(rng.random(values.shape) < 0.25, np.nan, values)


def dates(rng: np.random.Generator, count: int, calendar: str) -> Any:
    """Returns days of a calendar, as xarray decodes them."""
    days = np.sort(rng.integers(0, 20_000, count))
    if calendar in ("standard", "proleptic_gregorian"):
        return np.datetime64("1999-12-31", "ns") + days * np.timedelta64(1, "D")
    return cftime.num2date(days, "days since 1850-01-01", calendar=calendar)


def dataset(seed: int, kind: str) -> Any:
    """Returns an xarray dataset and its encodings for ``classic``, ``netcdf4`` or ``zarr``."""
    rng = np.random.default_rng(seed)
    made = Made(rng, kind)
    sizes = {"t": int(rng.integers(3, 7)), "y": int(rng.integers(1, 5)), "x": int(rng.integers(1, 7))}
    n_t, n_y, n_x = sizes.values()
    _numbers(made, sizes)
    _times(made, n_t)
    _texts(made, n_x)
    # Coordinates of one, two and no dimensions, and the variables that describe them.
    made.coordinate(
        "t",
        ("t",),
        dates(rng, n_t, "standard"),
        {"bounds": "t_bnds", "axis": "T"},
        units="hours since 1990-01-01",
        dtype="f8" if rng.random() < 0.5 else "i4",
        _FillValue=None,
    )
    made.add("t_bnds", ("t", "nv"), dates(rng, 2 * n_t, "standard").reshape(n_t, 2))
    made.coordinate("lat", ("y", "x"), rng.random((n_y, n_x)), {"units": "degrees_north"})
    made.coordinate("lon", ("y", "x"), rng.random((n_y, n_x)).astype("f4"), {"units": "degrees_east"})
    made.coordinate("height", (), np.float64(2.0), {"units": "m"})
    made.add("crs", (), np.int32(0), {"grid_mapping_name": "latitude_longitude", "earth_radius": 6371000.0})
    made.add("mapped", ("y", "x"), holes(rng, rng.random((n_y, n_x))), grid_mapping="crs")
    made.add("nothing", ("z",), np.zeros(0, "f4"))
    made.add("nothing_wide", ("t", "z"), np.zeros((n_t, 0), "i2"))
    if rng.random() < 0.3:
        side = int(rng.integers(60, 250))
        made.add("large", ("t", "wide", "long"), holes(rng, rng.random((n_t, side, side))), dtype="f4")
    attributes = {"title": "températures", "Conventions": "CF-1.8", "level": 3, "factor": 2.5}
    attributes |= {"numbers": np.array([1, 2, 3], "i4"), "fractions": np.array([0.5, 0.25]), "void": ""}
    return xr.Dataset(made.variables, made.coordinates, attributes), made.encodings


def _numbers(made: Made, sizes: dict[str, int]) -> None:
    rng, add = made.rng, made.add
    shape = sizes["t"], sizes["x"]
    dims = ("t", "x")

    def some() -> Any:
        return holes(rng, rng.random(shape) * 50)

    def whole(dtype: str) -> Any:
        return rng.integers(0, 100, shape).astype(dtype)

    add("packed", dims, some(), dtype="i2", scale_factor=0.01, add_offset=273.15, _FillValue=np.int16(-32767))
    add("packed_small", dims, some() / 25, dtype="i2", scale_factor=np.float32(0.01), _FillValue=np.int16(-9))
    add("packed_sure", dims, rng.random(shape), dtype="i2", scale_factor=0.01, _FillValue=None)
    add(
        "packed_unsigned",
        dims,
        np.round(some() / 2) / 10,
        dtype="i1",
        _Unsigned="true",
        _FillValue=np.int8(-1),
        scale_factor=0.1,
        add_offset=1.0,
    )
    add("packed_zero", dims, some() + 1, dtype="i4", scale_factor=0.5, _FillValue=np.int32(0))
    add("doubles", dims, some(), {"units": "K", "valid_range": np.array([0.0, 50.0])})
    add("doubles_sure", dims, rng.random(shape), _FillValue=None)
    add("floats", dims, some().astype("f4"), dtype="f4", _FillValue=np.float32(9.96921e36))
    add("floats_zero", dims, some().astype("f4") + 1, dtype="f4", _FillValue=np.float32(0))
    add("floats_tenth", dims, some().astype("f4"), dtype="f4", _FillValue=np.float32(0.1))
    add("floats_infinite", dims, some(), _FillValue=-np.inf)
    add("older_missing", dims, some(), _FillValue=-9.0, missing_value=-9.0)
    add("oldest_missing", dims, some(), _FillValue=None, missing_value=-9.0)
    add("bytes1", dims, whole("i1"))
    add("shorts", dims, whole("i2"))
    add("ints", dims, whole("i4"), {"units": "1"})
    add("ints_filled", dims, whole("i4"), _FillValue=np.int32(7))
    add("ints_zero", dims, whole("i4"), _FillValue=np.int32(0))
    add("ints_holes", dims, holes(rng, whole("f8")), dtype="i4", _FillValue=np.int32(-1))
    add("truth", dims, rng.random(shape) < 0.5)
    add("scalar_int", (), np.int32(rng.integers(100)), _FillValue=None)
    add("scalar_float", (), np.float64(rng.random()))
    add("scalar_none", (), np.float64("nan"), _FillValue=-1.0)
    add("line", ("x",), whole("i4")[0])
    if made.kind != "classic":
        for dtype in ("u1", "u2", "u4", "u8", "i8"):
            add(f"whole_{dtype}", dims, whole(dtype), _FillValue=np.dtype(dtype).type(3))
        add("whole_i8_sure", dims, whole("i8"))
        add("ints_large", dims, whole("i8") + 2**60, _FillValue=np.int64(2**60 + 1))
    if made.kind == "zarr":
        add("pairs", dims, rng.random(shape) + 1j * rng.random(shape))
        add("halves", dims, rng.random(shape).astype("f2"))
        # Zeros equal the fill value, which does not mark missing elements here.
        records = np.zeros(sizes["x"], [("a", "i4"), ("b", "f8")])
        records[1:] = (7, 0.5)
        add("records", ("x",), records)


def _times(made: Made, count: int) -> None:
    rng, dims = made.rng, ("t",)
    for calendar in CALENDARS:
        words = {"units": "days since 1850-01-01", "calendar": calendar}
        made.add(f"date_{calendar}", dims, dates(rng, count, calendar), dtype="i4", **words)
        # xarray does not support missing dates in calendars that need cftime.
        days = rng.integers(0, 20_000, count).astype("f8")
        if calendar in ("standard", "proleptic_gregorian"):
            days[rng.integers(1, count - 1)] = np.nan
        fill, dtype = (np.int32(-99), "i4") if rng.random() < 0.5 else (-1e9, "f8")
        made.add(f"date_{calendar}_filled", dims, days, words, dtype=dtype, _FillValue=fill)
    made.add("date", (), dates(rng, 1, "standard")[0], units="days since 1990-01-01")
    made.add(
        "date_cf",
        (),
        dates(rng, 1, "noleap")[0],
        units="days since 1990-01-01",
        calendar="noleap",
    )
    span = rng.integers(0, 1000, count) * np.timedelta64(1, "h").astype("m8[ns]")
    made.add("span", dims, span, units="hours", dtype="i4")
    lost = span.copy()
    lost[0] = np.timedelta64("NaT", "ns")
    made.add("span_holes", dims, lost, units="hours", dtype="f8")
    if made.kind != "classic":
        made.add("span_native", dims, lost)
        absent = dates(rng, count, "standard")
        absent[-1] = np.datetime64("NaT", "ns")
        made.add("date_default", dims, absent)


def _texts(made: Made, count: int) -> None:
    rng = made.rng
    words = rng.choice(np.array(["a", "été", "", "long text"], object), count)
    letters = rng.choice(np.array([b"a", b"bc", b"def", b""]), count).astype("S3")
    made.add("bytes", ("x",), letters)
    # For text variables, netCDF and Zarr mark missing elements differently.
    made.add("letters", ("x",), words.copy(), dtype="S1")
    made.add("letters_named", ("x",), words.copy(), dtype="S1", char_dim_name="letter")
    if made.kind != "classic":
        made.add("words", ("x",), words.copy())
        made.add("word", (), np.array("été", object))
        made.add("words_attributed", ("x",), words.copy(), {"long_name": "mots"})


# ---- files that xarray does not write


def _attributes(place: Any, kind: str) -> None:
    """Writes attributes of every type to a variable or a group."""
    values: dict[str, Any] = {
        "text": "plain",
        "accents": "été — 日本",
        "none": "",
        "lines": 'one\ntwo\ttab "quoted" back\\slash',
        "short": np.int16(-3),
        "int": np.int32(7),
        "float": np.float32(0.1),
        "double": 1e300,
        "nan": np.float64("nan"),
        "infinite": np.float32("-inf"),
        "shorts": np.array([1, 2, 3], "i2"),
        "floats": np.array([0.1, np.nan, 3], "f4"),
        "one": np.array([5.5]),
        "negative_zero": -0.0,
    }
    if kind == "NETCDF4":
        values |= {
            "long": np.int64(2**60),
            "unsigned": np.uint64(2**63 + 1),
            "bytes": np.array([1, 255], "u1"),
        }
        values |= {"words": ["a", "été", ""]}
    for name, value in values.items():
        place.setncattr(name, value) if hasattr(place, "setncattr") else place.attrs.__setitem__(name, value)


def raw(path: Path, seed: int, kind: str) -> None:
    """Writes a file with netCDF4, like programs that know only this library."""
    rng = np.random.default_rng(seed)
    modern = kind == "NETCDF4"
    n_t, n_x = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    with netCDF4.Dataset(path, "w", format=kind) as file:
        _attributes(file, kind)
        file.createDimension("t", None)
        file.createDimension("x", n_x)
        file.createDimension("nothing", 3)
        file.createDimension("strlen", 5)

        def add(name: str, dtype: Any, dims: tuple[str, ...], values: Any = None, **options: Any) -> Any:
            attributes = options.pop("attributes", {})
            variable = file.createVariable(name, dtype, dims, **options)
            variable.set_auto_maskandscale(False)
            for key, value in attributes.items():
                variable.setncattr(key, value)
            if values is not None:
                variable[...] = values
            return variable

        add("records", "f8", ("t", "x"), rng.random((n_t, n_x)))
        # Text that is not UTF-8.
        latin = {"units": "°C".encode("latin-1")}
        add("latin", "f4", ("x",), rng.random(n_x), attributes=latin)
        file.setncattr("institution", "Météo".encode("latin-1"))
        add("every_attribute", "i4", ("x",), rng.integers(0, 9, n_x))
        _attributes(file["every_attribute"], kind)
        add("uncounted", "f4", ("nothing", "x"), rng.random((3, n_x)))
        add("unwritten", "i2", ("x",))
        add("unwritten_filled", "f4", ("x",), fill_value=np.float32(-5))
        add("unfilled", "i4", ("x",), rng.integers(0, 9, n_x), fill_value=False)
        add("record", "i2", ("t",), rng.integers(0, 9, n_t))
        add(
            "packed_float",
            "i2",
            ("t", "x"),
            rng.integers(-100, 100, (n_t, n_x)),
            fill_value=np.int16(-50),
            attributes={"scale_factor": np.float32(0.1), "add_offset": np.float32(10)},
        )
        add(
            "packed_whole",
            "i2",
            ("x",),
            rng.integers(0, 100, n_x),
            attributes={"scale_factor": np.int32(2), "add_offset": np.int16(1)},
        )
        add(
            "two_missing",
            "f4",
            ("x",),
            rng.integers(0, 4, n_x),
            fill_value=np.float32(1),
            attributes={"missing_value": np.float32(2)},
        )
        add(
            "list_missing",
            "f4",
            ("x",),
            rng.integers(0, 4, n_x),
            attributes={"missing_value": np.array([2, 3], "f4")},
        )
        add(
            "list_of_one",
            "i4",
            ("x",),
            rng.integers(0, 4, n_x),
            attributes={"flag_values": np.array([1], "i4")},
        )
        add(
            "seen",
            "f8",
            ("t",),
            np.arange(n_t),
            attributes={"units": "days since 2000-01-01", "calendar": "standard"},
        )
        add(
            "seen_coded",
            "i2",
            ("t",),
            np.arange(n_t),
            fill_value=np.int16(-1),
            attributes={"units": "hours since 2000-01-01", "calendar": "noleap"},
        )
        letters = np.array([b"ab", b"", b"abcde"], "S5")
        names = netCDF4.stringtochar(rng.choice(letters, n_x).astype("S5"))
        add("names", "S1", ("x", "strlen"), names)
        add("letter", "S1", ("strlen",), netCDF4.stringtochar(np.array([b"abc"], "S5"))[0])
        add("one_letter", "S1", ("x",), np.array([b"a", b""], "S1")[rng.integers(0, 2, n_x)])
        encoded = add("names_encoded", "S1", ("x", "strlen"), attributes={"_Encoding": "utf-8"})
        encoded.set_auto_chartostring(False)
        encoded[...] = np.array(["été".encode()] * n_x, "S5").view("S1").reshape(n_x, 5)
        add("located", "f4", ("x",), rng.random(n_x), attributes={"coordinates": "where names"})
        add("where", "f4", ("x",), rng.random(n_x))
        # A variable named like a dimension, but not its coordinate.
        file.createDimension("strange", 2)
        add("strange", "f4", ("x",), rng.random(n_x))
        # A coordinate of characters.
        file.createDimension("station", 2)
        add("station", "S1", ("station", "strlen"), netCDF4.stringtochar(np.array([b"one", b"two"], "S5")))
        if not modern:
            return
        file.createDimension("u", None)
        add("longest", "i4", ("u", "x"), rng.integers(0, 9, (n_t + 3, n_x)))
        short = add("shorter", "i4", ("u",), fill_value=np.int32(-1))
        short[: n_t + 1] = rng.integers(0, 9, n_t + 1)
        add("shorter_chunked", "f8", ("u", "x"), chunksizes=(2, 1), fill_value=0.5)[:2] = rng.random((2, n_x))
        add("shorter_unfilled", "f4", ("u",))[:1] = 3
        weather = file.createEnumType(np.uint8, "weather_t", {"clear": 0, "rain": 1, "missing": 255})
        add("weather", weather, ("x",), rng.integers(0, 2, n_x).astype("u1"))
        add("weather_filled", weather, ("x",), fill_value=255)[: n_x - 1] = rng.integers(0, 2, n_x - 1)
        add("words", str, ("x",))[:] = np.array(["a", "été", "", "long text"], object)[
            rng.integers(0, 4, n_x)
        ]
        filled = add("words_filled", str, ("x",), fill_value="none")
        filled[: n_x - 1] = np.array(["none", "a"], object)[rng.integers(0, 2, n_x - 1)]
        add("words_unwritten", str, ("x",))
        add("word", str, ())[...] = np.array("été", object)
        add("unsigned", "u2", ("x",), rng.integers(0, 9, n_x), fill_value=np.uint16(65535))
        add("large", "i8", ("x",), rng.integers(0, 9, n_x) + 2**60, fill_value=np.int64(2**60 + 1))
        add("big", "f4", ("x",), rng.random(n_x), endian="big", fill_value=np.float32(2))
        add(
            "big_packed",
            "i2",
            ("t", "x"),
            rng.integers(0, 9, (n_t, n_x)),
            endian="big",
            fill_value=np.int16(258),
            attributes={"scale_factor": 0.5},
        )
        add(
            "squeezed", "f4", ("t", "x"), rng.random((n_t, n_x)), zlib=True, shuffle=True, chunksizes=(1, n_x)
        )
        add("quantized", "f4", ("x",), rng.random(n_x), least_significant_digit=2)
        pair = file.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")], align=True), "pair_t")
        records = np.zeros(n_x, pair.dtype)
        records["a"][1:] = 3
        add("pairs", pair, ("x",), records)
        add("shorter_pairs", pair, ("u",))[0] = records[1]
        for name in ("inner", "inner/deep"):
            group = file.createGroup(name)
            group.title = f"group {name}"
            group.createDimension("z", 4)
            group.createVariable("z", "f4", ("z",))[:] = rng.random(4)
            group.createVariable("field", "f8", ("z", "x"), fill_value=-1.0)[:] = rng.random((4, n_x))
            group.createVariable("alone", "i4", ())[...] = 5
        file.createGroup("empty").note = "nothing in it"


def raw_h5(path: Path, seed: int) -> None:
    """Writes a file with h5netcdf."""
    rng = np.random.default_rng(seed)
    n_t, n_x = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    with h5netcdf.File(path, "w") as file:
        file.attrs["title"] = "été"
        file.attrs["numbers"] = np.array([1, 2], "i2")
        file.dimensions = {"t": None, "x": n_x, "alone": 2}
        file.resize_dimension("t", n_t)
        file.create_variable("x", ("x",), "f8")[...] = rng.random(n_x)
        file.create_variable("field", ("t", "x"), "f4", fillvalue=np.float32(-1))[...] = rng.random(
            (n_t, n_x)
        )
        file.create_variable("plain", ("t", "x"), "i4")[...] = rng.integers(0, 9, (n_t, n_x))
        packed = file.create_variable("packed", ("x",), "i2", fillvalue=np.int16(-1))
        packed.attrs["scale_factor"], packed.attrs["units"] = np.float32(0.1), "m"
        packed[...] = rng.integers(-1, 9, n_x)
        file.create_variable("scalar", (), "f8")[...] = 2.5
        file.create_variable("alone", ("x",), "i1")[...] = 1
        group = file.create_group("g")
        group.attrs["note"] = "inside"
        group.create_variable("more", ("x",), "f8")[...] = rng.random(n_x)


def raw_zarr(path: Path, seed: int, version: int) -> None:
    """Writes Zarr as zarr-python and older programs do, with and without named axes."""
    rng = np.random.default_rng(seed)
    root = zarr.open_group(path, mode="w", zarr_format=version)
    root.attrs["title"] = "été"

    def add(name: str, dims: tuple[str, ...], values: Any, fill: Any, **attributes: Any) -> None:
        options: dict[str, Any] = {"dimension_names": dims} if version == 3 else {}
        array = root.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            chunks=tuple(max(1, n // 2) for n in values.shape),
            fill_value=fill,
            **options,
        )
        array[...] = values
        if version == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = list(dims)
        array.attrs.update(attributes)

    n_x = int(rng.integers(2, 6))
    add("x", ("x",), np.arange(n_x), 0 if version == 3 else None)
    add("plain", ("x",), rng.random(n_x), None if version == 2 else 0.0)
    add("zeros", ("x",), rng.integers(0, 2, n_x), 0)
    add("zeros_float", ("x",), rng.integers(0, 2, n_x).astype("f4"), 0.0)
    add("nans", ("x",), rng.random(n_x), np.nan)
    add("sevens", ("x",), rng.integers(6, 9, n_x).astype("i2"), 7, scale_factor=0.1)
    add("scalar", (), np.array(5.0), 0.0)
    add("nested", ("x",), rng.random(n_x), 0.0, tree={"a": [1, {"b": None}], "flag": True})
    add("times", ("x",), np.arange(n_x), 0, units="days since 2000-01-01", calendar="standard")
    add("truth", ("x",), rng.random(n_x) < 0.5, False)
    if version == 2:
        add("fixed", ("x",), rng.choice(np.array(["a", "none", "été"]), n_x), "none")
        return
    records = np.zeros(n_x, [("a", "i4"), ("b", "f8")])
    add("records", ("x",), records, records[0])
    # Unwritten elements have the fill value. They are not missing.
    unwritten = np.array((3, 0.5), records.dtype)[()]
    options: dict[str, Any] = {"dimension_names": ("x",), "shape": (n_x,), "chunks": (1,)}
    root.create_array("records_unwritten", dtype=records.dtype, fill_value=unwritten, **options)
    root.create_array("scalar_unwritten", dtype="i4", shape=(), fill_value=5)
    octets = root.create_array("octets", dtype="variable_length_bytes", **options)
    octets[...] = np.array([b"", b"a", b"bc", b"", b""], object)[:n_x]


# ---- what there is


@dataclass(frozen=True)
class Source:
    """A kind of file: its writer, and xarray's engine for it."""

    write: Callable[[Path, int], None]
    suffix: str
    engine: str
    groups: bool = False

    @property
    def is_file(self) -> bool:
        return self.suffix != ".zarr"


def _to_netcdf(path: Path, seed: int, form: str, engine: str) -> None:
    made, encodings = dataset(seed, "classic" if form in CLASSIC[:2] else "netcdf4")
    if form == "NETCDF3_64BIT_DATA":
        made, encodings = dataset(seed, "classic")
    if engine == "h5netcdf":
        made, encodings = _without(made, encodings, "word", "words", "words_attributed")
    if form in CLASSIC:
        made, encodings = _without(made, encodings, "letters_named", "nothing", "nothing_wide")
    unlimited = ["t"] if seed % 2 else []
    made.to_netcdf(path, format=form, engine=engine, encoding=encodings, unlimited_dims=unlimited)


def _without(made: Any, encodings: dict[str, Any], *names: str) -> Any:
    return made.drop_vars(names, errors="ignore"), {k: v for k, v in encodings.items() if k not in names}


def _to_zarr(path: Path, seed: int, version: int, *, shards: bool = False) -> None:
    made, encodings = dataset(seed, "zarr")
    made, encodings = _without(made, encodings, "letters", "letters_named")
    if version == 3:
        made, encodings = _without(made, encodings, "bytes")
    if shards:
        for name, variable in made.variables.items():
            if variable.ndim and variable.size:
                encodings.setdefault(name, {})["chunks"] = tuple(max(1, n // 2) for n in variable.shape)
                encodings[name]["shards"] = tuple(max(1, n // 2) * 2 for n in variable.shape)
    made.to_zarr(path, zarr_format=version, encoding=encodings, consolidated=bool(seed % 2))


def _sources() -> dict[str, Source]:
    made: dict[str, Source] = {}
    for form in CLASSIC:
        made[f"xarray {form}"] = Source(
            lambda path, seed, form=form: _to_netcdf(path, seed, form, "netcdf4"), ".nc", "netcdf4"
        )
        made[f"netCDF4 {form}"] = Source(
            lambda path, seed, form=form: raw(path, seed, form), ".nc", "netcdf4"
        )
    for engine in ("netcdf4", "h5netcdf"):
        made[f"xarray {engine} NETCDF4"] = Source(
            lambda path, seed, engine=engine: _to_netcdf(path, seed, "NETCDF4", engine), ".nc", "netcdf4"
        )
    made["netCDF4 NETCDF4"] = Source(lambda path, seed: raw(path, seed, "NETCDF4"), ".nc", "netcdf4", True)
    made["netCDF4 NETCDF4_CLASSIC"] = Source(
        lambda path, seed: raw(path, seed, "NETCDF4_CLASSIC"), ".nc", "netcdf4"
    )
    made["h5netcdf"] = Source(raw_h5, ".nc", "netcdf4", True)
    for version in (2, 3):
        made[f"xarray Zarr v{version}"] = Source(
            lambda path, seed, version=version: _to_zarr(path, seed, version), ".zarr", "zarr"
        )
        made[f"zarr-python v{version}"] = Source(
            lambda path, seed, version=version: raw_zarr(path, seed, version), ".zarr", "zarr"
        )
    made["xarray Zarr v3 in shards"] = Source(
        lambda path, seed: _to_zarr(path, seed, 3, shards=True), ".zarr", "zarr"
    )
    return made


SOURCES = _sources()
