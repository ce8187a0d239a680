"""Codecs that users write in Python, by registration, as objects and by entry points.

Compared with zarr-python.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr
from hyperslab._codecs import user as user_codecs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from user_codec_classes import Add, Flip, Mark, Text, Turn, Twice

KNOWN = {"t.add": Add, "t.text": Text, "t.mark": Mark}


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Restores the registries after each test."""
    ids, names = dict(user_codecs._by_id), dict(user_codecs._by_name)
    others = dict(numcodecs.registry.codec_registry)
    yield
    for mine, before in ((user_codecs._by_id, ids), (user_codecs._by_name, names)):
        mine.clear()
        mine.update(before)
    numcodecs.registry.codec_registry.clear()
    numcodecs.registry.codec_registry.update(others)


@pytest.fixture
def with_zarr() -> Iterator[None]:
    """Registers the classes with zarr-python, too."""
    from zarr import registry

    for name, kind in KNOWN.items():
        registry.register_codec(name, kind)
    numcodecs.register_codec(Flip)
    numcodecs.register_codec(Turn)
    yield
    for name in KNOWN:
        # The name of this attribute depends on zarr-python's version.
        found = vars(registry).get("_codec_registries") or vars(registry)["__codec_registries"]
        found.pop(name)


def values(shape: tuple[int, ...] = (5, 7), dtype: str = "i4") -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


# ---- both ways with zarr-python


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple),
    data=st.data(),
    dtype=st.sampled_from(["|u1", "<i2", ">i4", "<f8", "<M8[s]", "|S3", "<U2", "|b1", "<c8"]),
    order=st.sampled_from(["C", "F"]),
    before=st.sampled_from([None, numcodecs.CRC32()]),
    compressor=st.sampled_from([None, numcodecs.Zlib(1), Flip(7)]),
    twice=st.booleans(),
)
def test_v2_both_ways(
    with_zarr: None, shape: Any, data: Any, dtype: str, order: Any, before: Any, compressor: Any, twice: bool
) -> None:
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    filters = [Flip(255), *([Flip(1)] if twice else [])]
    if before is not None:
        filters.append(before)
    source = values(shape, "i4").astype(dtype)
    store: dict[str, bytes] = {}
    keywords: dict[str, Any] = dict(
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        zarr_format=2,
        filters=filters,
        compressors=compressor,
        order=order,
    )
    z = hs.create_array(store, name="ours", **keywords)
    z[...] = source
    memory = zarr.storage.MemoryStore()
    theirs = zarr.create_array(memory, name="theirs", **keywords)
    theirs[...] = source
    buffer = zarr.core.buffer.cpu.Buffer
    stored = memory._store_dict
    ours = {key: buffer.from_bytes(value) for key, value in store.items()}
    store.update({key: value.to_bytes() for key, value in stored.items()})
    stored.update(ours)
    for key in store:
        # DEFLATE has many encoders, so the bytes may differ.
        deflated = isinstance(compressor, numcodecs.Zlib)
        if not deflated and key.startswith("theirs/") and not key.endswith((".zarray", ".zattrs")):
            assert store[key] == store[key.replace("theirs", "ours")], key
    np.testing.assert_array_equal(hs.open_array(store, path="theirs")[...], source)
    np.testing.assert_array_equal(zarr.open_array(memory, path="ours")[...], source)
    assert hs.open_array(store, path="theirs").filters[0] == filters[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple),
    data=st.data(),
    dtype=st.sampled_from(["int16", "int32"]),
    transpose=st.booleans(),
    add=st.booleans(),
    serializer=st.sampled_from([None, Text()]),
    shards=st.booleans(),
)
def test_v3_both_ways(
    tmp_path_factory: pytest.TempPathFactory,
    with_zarr: None,
    shape: Any,
    data: Any,
    dtype: str,
    transpose: bool,
    add: bool,
    serializer: Any,
    shards: bool,
) -> None:
    folder = tmp_path_factory.mktemp("v3")
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    filters: list[Any] = (
        [zarr.codecs.TransposeCodec(order=tuple(reversed(range(len(shape)))))] if transpose else []
    )
    filters += [Add(3)] if add else []
    keywords: dict[str, Any] = dict(
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        filters=filters,
        compressors=[Mark(9), zarr.codecs.GzipCodec()],
    )
    if shards:
        keywords["shards"] = tuple(2 * n for n in chunks)
    if serializer is not None:
        keywords["serializer"] = serializer
    source = values(shape, dtype)
    z = hs.create_array(folder / "ours", **keywords)
    z[...] = source
    theirs = zarr.create_array(folder / "theirs", **keywords)
    theirs[...] = source
    assert (
        json.loads((folder / "ours/zarr.json").read_text())["codecs"]
        == (json.loads((folder / "theirs/zarr.json").read_text())["codecs"])
    )
    np.testing.assert_array_equal(hs.open_array(folder / "theirs")[...], source)
    np.testing.assert_array_equal(zarr.open_array(folder / "ours")[...], source)
    at = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    z[at] = 77
    again = hs.open_array(folder / "ours")
    assert again[at] == 77 and zarr.open_array(folder / "ours")[at] == 77
    assert list(again.compressors)[0] == Mark(9)
    if add:
        assert again.filters[-1] == Add(3)
    if serializer is not None:
        assert again.serializer == Text(10)


def test_the_shape_that_codecs_see(with_zarr: None) -> None:
    """As in zarr-python, a codec sees the chunk's own shape and order.

    After another codec it sees bytes.
    """
    Flip.seen.clear()
    z = hs.create_array(
        {}, shape=(4, 6), chunks=(2, 3), dtype=">i4", zarr_format=2,
        filters=[Turn((2, 3), ">i4"), Flip(3)], compressors=None,
    )  # fmt: skip
    z[...] = values((4, 6))
    np.testing.assert_array_equal(z[...], values((4, 6)))
    assert {(dtype, len(shape)) for dtype, shape, _ in Flip.seen} == {("|u1", 1)}
    Flip.seen.clear()
    for order in ("C", "F"):
        hs.create_array({}, data=values((2, 3)), zarr_format=2, order=order, filters=[Flip(3)])
    assert Flip.seen == [("<i4", (2, 3), False), ("<i4", (2, 3), True)]


def test_delta_of_ours_before_a_users_codec() -> None:
    z = hs.create_array(
        {}, shape=(40,), chunks=(10,), dtype="i4", zarr_format=2,
        filters=[numcodecs.Delta("<i4", "<i2"), Flip(1)], compressors=numcodecs.Zstd(1),
    )  # fmt: skip
    z[...] = values((40,))
    np.testing.assert_array_equal(z[...], values((40,)))
    with pytest.raises(hs.errors.InvalidArgumentError, match="works on arrays"):
        hs.create_array({}, shape=(4,), dtype="i4", zarr_format=2, filters=[Flip(1), numcodecs.Delta("<i4")])


# ---- names


def test_registration() -> None:
    codec = {"id": "twice", "times": 3}
    with pytest.raises(hs.errors.UnknownCodecError, match="codec 'twice'|codec \"twice\""):
        hs.create_array({}, data=[1, 2], zarr_format=2, compressors=codec)
    with pytest.raises(hs.errors.ArgumentTypeError, match="no codec_id"):
        hs.codecs.register_codec(Twice)
    hs.codecs.register_codec(Twice, "twice")
    store: dict[str, bytes] = {}
    z = hs.create_array(store, data=[1, 2], zarr_format=2, compressors=codec, filters=None)
    assert store["0"] == bytes(np.repeat(np.array([1, 2]).view("u1"), 3))
    assert z.compressors[0].times == 3
    # An object whose class has no name gets the name that the class was registered with.
    z = hs.create_array({}, data=[1, 2], compressors=[Twice(4)])
    assert z.metadata.to_dict()["codecs"][-1] == {"name": "numcodecs.twice", "configuration": {"times": 4}}
    np.testing.assert_array_equal(z[:], [1, 2])
    # zarr-python's order of arguments.
    hs.codecs.register_codec("t.mark", Mark)
    z = hs.create_array({}, data=[1, 2], compressors={"name": "t.mark", "configuration": {"byte": 2}})
    assert z.compressors == (Mark(2),)
    assert "Mark(byte=2)" in repr(z.info)


def test_a_class_that_is_registered_again() -> None:
    class One:
        codec_id = "t-again"
        mask = 1

        def encode(self, buf: Any) -> Any:
            return np.frombuffer(bytes(memoryview(buf).cast("B")), "u1") ^ self.mask

        def decode(self, buf: Any) -> Any:
            return np.frombuffer(buf, "u1") ^ self.mask

    class Other(One):
        mask = 2

    store: dict[str, bytes] = {}
    z = hs.create_array(store, data=np.zeros(3, "u1") + 7, zarr_format=2, compressors=One(), filters=None)
    assert store["0"] == b"\6\6\6"
    hs.codecs.register_codec(Other)
    assert hs.open_array(store)[0] == 4
    assert z[0] == 7


@pytest.mark.parametrize("key", ["zlib", "delta", "vlen-utf8", "pickle", "json2", "categorize"])
def test_names_that_nobody_can_have(key: str) -> None:
    with pytest.raises(hs.errors.InvalidArgumentError, match="cannot be replaced"):
        hs.codecs.register_codec(Twice, key)
    for name in ("zstd", "bytes", "sharding_indexed", "numcodecs.pickle", "numcodecs.zlib"):
        with pytest.raises(hs.errors.InvalidArgumentError, match="cannot be replaced"):
            hs.codecs.register_codec(name, Mark)


def test_what_is_no_codec() -> None:
    for wrong in (Twice(), int, None, 3):
        with pytest.raises(hs.errors.ArgumentTypeError):
            hs.codecs.register_codec(wrong, "t-wrong")
    for wrong in (3, object(), Twice):
        with pytest.raises(hs.errors.ArgumentTypeError):
            hs.create_array({}, data=[1], compressors=[wrong])
    odd = Flip(1)
    odd.more = object()
    with pytest.raises(hs.errors.ArgumentTypeError, match="JSON"):
        hs.create_array({}, data=[1], compressors=[odd])
    with pytest.raises(hs.errors.InvalidArgumentError, match="Zarr v2 cannot use codec"):
        hs.create_array({}, data=[1], zarr_format=2, compressors=Mark())


def test_pickle_stays_refused() -> None:
    assert "pickle" in numcodecs.registry.codec_registry
    with pytest.raises(hs.errors.HyperslabError, match="a pickle runs code"):
        hs.create_array({}, data=[1], zarr_format=2, compressors={"id": "pickle"})


def test_pickled_arrays_bring_their_codecs(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=values(), filters=[Add(2)], compressors=[Mark(), Flip(3)])
    text = pickle.dumps(z)
    program = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read())[1].tolist())"
    assert run(program, tmp_path, text) == str(list(range(7, 14)))


# ---- errors


def failing(**methods: Any) -> Any:
    kind = type("Failing", (Flip,), {"codec_id": "t-failing", **methods})
    return kind(1)


class StopNow(BaseException):
    pass


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyboardInterrupt(), StopNow(), MemoryError(), KeyError(3)]
)
@pytest.mark.parametrize("verb", ["encode", "decode"])
def test_what_codecs_raise_arrives(tmp_path: Path, error: BaseException, verb: str) -> None:
    def method(self: Any, buf: Any, out: Any = None) -> Any:
        raise error

    z = hs.create_array(
        tmp_path / "a", shape=(6,), chunks=(2,), dtype="u1", compressors=[failing(**{verb: method})]
    )
    if verb == "decode":
        z[:] = 1
    with pytest.raises(type(error)) as caught:
        z[:] if verb == "decode" else z.__setitem__(slice(None), 1)
    assert caught.value is error
    assert any("chunk [0]" in note and "'c/0'" in note and "t-failing" in note for note in error.__notes__)


@pytest.mark.parametrize("made", [b"", b"1", b"123", np.arange(4), bytearray(7)])
def test_wrong_lengths(tmp_path: Path, made: Any) -> None:
    z = hs.create_array(
        tmp_path / "a", shape=(6,), chunks=(2,), dtype="u1", compressors=[failing(decode=lambda *_: made)]
    )
    z[:] = 1
    for select in (slice(None), 0, slice(3, 5), slice(None, None, -1)):
        with pytest.raises(hs.errors.ChunkError, match="2 are expected|2 bytes"):
            z[select]


@pytest.mark.parametrize("made", [None, 3, "text", [1, 2], np.array([1, "x"], object)])
def test_wrong_types(tmp_path: Path, made: Any) -> None:
    for verb in ("encode", "decode"):
        z = hs.create_array(
            tmp_path / verb, shape=(2,), dtype="u1", compressors=[failing(**{verb: lambda *_: made})]
        )
        with pytest.raises(TypeError, match=f"t-failing: {verb}: expected bytes"):
            z[:] = 1
            z[:]


def test_arrays_of_another_shape_or_type() -> None:
    class Wrong(Add):
        name = "t.wrong"

        def resolve_metadata(self, chunk_spec: Any) -> Any:
            return chunk_spec

    z = hs.create_array({}, shape=(2,), dtype="i4", filters=[Wrong()])
    with pytest.raises(TypeError, match="expected an array of int32 .* found one of int64"):
        z[:] = 1


def test_settings_that_a_class_refuses(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=[1, 2], compressors=[Flip(3)])
    path = tmp_path / "a/zarr.json"
    path.write_text(path.read_text().replace('"bits": 3', '"bits": "many"'))
    del z
    with pytest.raises(
        hs.errors.MetadataValidationError, match="t-flip.*ValueError: invalid literal"
    ) as caught:
        hs.open_array(tmp_path / "a")
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_codec_that_waits() -> None:
    import asyncio

    class Waits(Mark):
        name = "t.waits"

        async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
            await asyncio.sleep(0)
            return chunk_data

    z = hs.create_array({}, data=[1, 2], compressors=[Waits()])
    with pytest.raises(RuntimeError, match="without an event loop"):
        z[:]

    async def within() -> Any:
        """Runs in a thread with a running loop. A codec that uses threads has its own loop."""
        y = hs.create_array({}, data=values(), filters=[Add(2)])
        await asyncio.sleep(0)
        return y[...]

    np.testing.assert_array_equal(asyncio.run(within()), values())


def test_a_codec_that_keeps_and_changes_what_it_gets(tmp_path: Path) -> None:
    kept = []

    def encode(self: Any, buf: Any) -> bytes:
        kept.append(buf)
        made = bytes(buf)
        buf[...] = 9
        return made

    z = hs.create_array(
        tmp_path / "a", shape=(6,), chunks=(2,), dtype="u1", zarr_format=2,
        filters=[failing(encode=encode, decode=lambda self, buf: buf)], compressors=None,
    )  # fmt: skip
    source = np.arange(6, dtype="u1")
    z[:] = source
    assert source.tolist() == list(range(6)) == z[:].tolist()
    assert [array.tolist() for array in kept] == [[9, 9]] * 3


def test_a_codec_that_reads_another_array(tmp_path: Path) -> None:
    table = hs.create_array(tmp_path / "table", data=np.arange(256, dtype="u1")[::-1].copy(), chunks=(16,))
    z = hs.create_array(
        tmp_path / "a", shape=(600,), chunks=(20,), dtype="u1",
        compressors=[
            failing(
                encode=lambda self, buf: table[:][np.frombuffer(buf, "u1")],
                decode=lambda self, buf: table[:][np.frombuffer(buf, "u1")],
            )
        ],
    )  # fmt: skip
    z[:] = values((600,), "u1")
    np.testing.assert_array_equal(z[:], values((600,), "u1"))


# ---- threads, forks, streams


def test_every_way_to_read_and_write(tmp_path: Path) -> None:
    data = values((64, 300), "i4")
    z = hs.create_array(
        tmp_path / "a", shape=data.shape, chunks=(4, 300), shards=(16, 300), dtype="i4",
        filters=[Add(1)], compressors=[Mark(), Flip(9), hs.codecs.Zstd()],
    )  # fmt: skip
    with z.writer() as writer:
        for start in range(0, 64, 8):
            writer[start : start + 8] = data[start : start + 8]
    np.testing.assert_array_equal(z[...], data)
    np.testing.assert_array_equal(np.stack([row for _, row in z.stream()]), data)
    np.testing.assert_array_equal(z.oindex[[1, 5, 40], ::7], data[[1, 5, 40], ::7])
    z[3:5, 7] = -1
    data[3:5, 7] = -1
    hs.copy(z, tmp_path / "b", chunks=(10, 100))
    copied = hs.open_array(tmp_path / "b")
    np.testing.assert_array_equal(copied[...], data)
    assert Flip(9) in copied.compressors
    texts = hs.create_array(tmp_path / "t", shape=(9,), chunks=(2,), dtype=str, compressors=[Flip(5), Mark()])
    texts[:] = [str(n) * n for n in range(9)]
    assert texts[:].tolist() == [str(n) * n for n in range(9)]


def test_writers(tmp_path: Path) -> None:
    """A writer raises what a codec raises, and stores its queue when the program ends."""
    error = OSError(5, "no luck")

    def method(self: Any, buf: Any) -> Any:
        raise error

    z = hs.create_array(
        tmp_path / "a", shape=(100,), chunks=(10,), dtype="u1", compressors=[failing(encode=method)]
    )
    with pytest.raises(OSError, match="no luck") as caught, z.writer() as writer:
        writer[:50] = 3
    assert caught.value is error
    program = f"""
import time, hyperslab as hs, numpy as np
from user_codec_classes import Flip
class Slow(Flip):
    def encode(self, buf):
        time.sleep(0.02)
        return super().encode(buf)
z = hs.create_array({str(tmp_path / "b")!r}, shape=(100,), chunks=(10,), dtype="u1", compressors=[Slow()])
w = z.writer()
w[:] = np.arange(100)
"""
    run(program, tmp_path)
    hs.codecs.register_codec(Flip)
    assert hs.open_array(tmp_path / "b")[:].tolist() == list(range(100))


def test_where_such_codecs_cannot_be() -> None:
    sharding = hs.codecs.Sharding((2,), [hs.codecs.Bytes(), Flip(1)])
    z = hs.create_array({}, shape=(8,), chunks=(4,), dtype="i4", serializer=sharding, compressors=[Mark()])
    z[:] = np.arange(8)
    assert z[:].tolist() == list(range(8))
    assert z.explain().foreign_codecs == (("numcodecs.t-flip", "Python"), ("t.mark", "Python"))
    assert z.serializer.codecs[1] == Flip(1)
    # A codec before shards: these are then read and written as a whole.
    plain = hs.codecs.Sharding((2,), [hs.codecs.Bytes()])
    z = hs.create_array({}, shape=(8,), chunks=(4,), dtype="i4", serializer=plain, filters=[Add(1)])
    z[:] = np.arange(8)
    assert z[:].tolist() == list(range(8)) and z.filters == (Add(1),)
    # `explain` reports one Python codec for such shards: the sharding codec, which includes the
    # others.
    z = hs.create_array(
        {}, shape=(8,), chunks=(4,), serializer=sharding, filters=[hs.codecs.Squeeze()], dtype="i4"
    )
    assert z.explain().foreign_codecs == (("sharding_indexed", "Python"),)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"serializer": hs.codecs.Sharding((2,), index_codecs=[hs.codecs.Bytes(), Flip(1)])}, "fixed"),
        ({"filters": [Mark()]}, "works on bytes"),
        ({"filters": [Flip(1)]}, "works on bytes"),
        ({"compressors": [Text()]}, "expected one codec from array to bytes"),
    ]
    for more, why in refused:
        with pytest.raises(hs.errors.HyperslabError, match=why):
            hs.create_array({}, shape=(8,), chunks=(4,), dtype="i4", **more)


def test_threads(tmp_path: Path) -> None:
    data = values((200, 50))
    z = hs.create_array(
        tmp_path / "a", shape=data.shape, chunks=(5, 50), dtype="i4", compressors=[Flip(3), hs.codecs.Zstd()]
    )
    failed: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for _ in range(5):
                z[n * 25 : n * 25 + 25] = data[n * 25 : n * 25 + 25]
                np.testing.assert_array_equal(z[n * 25 : n * 25 + 25], data[n * 25 : n * 25 + 25])
                np.testing.assert_array_equal(hs.open_array(tmp_path / "a")[n * 25], data[n * 25])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed and not any(thread.is_alive() for thread in threads)
    np.testing.assert_array_equal(z[...], data)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forks(tmp_path: Path) -> None:
    data = values((200, 50))
    z = hs.create_array(tmp_path / "a", data=data, chunks=(5, 50), filters=[Add(1)], compressors=[Flip(3)])
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            hs.open_array(tmp_path / "a")[:]

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                try:
                    good = bool(
                        (z[...] == data).all() and (hs.open_array(tmp_path / "a")[7] == data[7]).all()
                    )
                    os._exit(0 if good else 1)
                finally:
                    os._exit(2)
            answered = threading.Timer(60, os.kill, (child, 9))
            answered.start()
            assert os.waitpid(child, 0)[1] == 0
            answered.cancel()
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_explain(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=values(), compressors=[Flip(3), hs.codecs.Zstd()])
    for plan in (z.explain(), z.explain(write=True)):
        assert plan.foreign_codecs == (("numcodecs.t-flip", "Python"),)
        assert "codec 'numcodecs.t-flip' runs in Python" in str(plan)
    assert hs.create_array({}, data=[1]).explain().foreign_codecs == ()


def test_codecs_go_with_their_arrays() -> None:
    import weakref

    made: list[Any] = []

    class Counted(Flip):
        codec_id = "t-counted"

        def __init__(self, bits: int = 1) -> None:
            super().__init__(bits)
            made.append(weakref.ref(self))

    hs.codecs.register_codec(Counted)
    store: dict[str, bytes] = {}
    for _ in range(50):
        hs.create_array(store, data=[1, 2], compressors=[Counted(3)], overwrite=True)
        hs.open_array(store)[:]
    gc.collect()
    assert not [ref for ref in made if ref() is not None]


# ---- entry points, and separate programs


def run(program: str, folder: Path, given: bytes = b"", more: str = "") -> str:
    here = Path(__file__).parents[1] / "lib"
    installed = Path(hs.__file__).parents[1]
    path = os.pathsep.join([more, str(folder), str(installed), str(here)])
    done = subprocess.run(
        [sys.executable, "-c", program], input=given, capture_output=True, timeout=120,
        env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


PLAIN = """
class Shift:
    codec_id = "t-shift"
    def __init__(self, by=1):
        self.by = by
    def encode(self, buf):
        return bytes((b + self.by) % 256 for b in memoryview(buf).cast("B"))
    def decode(self, buf):
        return bytes((b - self.by) % 256 for b in buf)
"""


@pytest.mark.parametrize("group", ["numcodecs.codecs", "zarr.codecs", "zarr.codecs.t-shift"])
def test_entry_points(tmp_path: Path, group: str) -> None:
    """A class is loaded when an array that names it is opened. No package is imported for that."""
    (tmp_path / "t_shift.py").write_text(PLAIN)
    info = tmp_path / "t_shift-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: t-shift\nVersion: 1.0\n")
    name = "t-shift" if group != "zarr.codecs.t-shift" else "any"
    if group == "numcodecs.codecs":
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = t_shift:Shift\n")
        codec, kind = {"id": "t-shift", "by": 2}, "Shift"
    else:
        (tmp_path / "t_mark.py").write_text(
            "from user_codec_classes import Mark\nclass Other(Mark):\n    name = 't-shift'\n"
        )
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = t_mark:Other\n")
        codec, kind = {"name": "t-shift", "configuration": {"byte": 2}}, "Other"
    program = f"""
import sys, hyperslab as hs
assert "t_shift" not in sys.modules
z = hs.create_array({str(tmp_path / "a")!r}, data=[1, 2, 3], compressors={codec!r}, filters=None)
print(hs.open_array({str(tmp_path / "a")!r})[:].tolist(), type(z.compressors[0]).__name__)
print({group == "numcodecs.codecs"} and ("numcodecs" in sys.modules or "zarr" in sys.modules))
print(hs.open_array({str(tmp_path / "a")!r})[1])
"""
    assert run(program, tmp_path) == f"[1, 2, 3] {kind}\nFalse\n2"


def test_an_entry_point_that_cannot_be_loaded(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[numcodecs.codecs]\nt-broken = no_such_module:Codec\n")
    program = """
import hyperslab as hs
try:
    hs.create_array({}, data=[1], zarr_format=2, compressors={"id": "t-broken"})
except hs.errors.HyperslabError as error:
    print(error, "|", repr(error.__cause__))
"""
    assert "No module named 'no_such_module'\")" in run(program, tmp_path)


def test_the_command_line_of_python(tmp_path: Path) -> None:
    """The command finds entry points, but not codecs that another program has registered."""
    hs.create_array(tmp_path / "a", data=[1, 2, 3], compressors=[Flip(3)])
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab", "info", str(tmp_path / "a")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "numcodecs.t-flip" in done.stderr


def test_the_end_of_the_program(tmp_path: Path) -> None:
    """Threads decode while the interpreter ends."""
    program = f"""
import threading, hyperslab as hs, numpy as np
from user_codec_classes import Flip
z = hs.create_array({str(tmp_path / "a")!r}, data=np.arange(10000), chunks=(100,), compressors=[Flip(3)])
def read():
    while True:
        z[:]
for _ in range(3):
    threading.Thread(target=read, daemon=True).start()
z[:]
print("done")
"""
    for _ in range(3):
        assert run(program, tmp_path) == "done"
        shutil.rmtree(tmp_path / "a")
