"""Codecs of all kinds as users write them. Child processes and zarr-python use the same classes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_ndarray
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec


class Flip(Codec):  # type: ignore[misc]
    """Flips bits of all bytes. Works on arrays, and on bytes."""

    codec_id = "t-flip"
    seen: ClassVar[list[tuple[str, tuple[int, ...], bool]]] = []

    def __init__(self, bits: int = 1) -> None:
        self.bits = int(bits)

    def encode(self, buf: Any) -> Any:
        array = ensure_ndarray(buf)
        self.seen.append((array.dtype.str, array.shape, array.flags.f_contiguous and array.ndim > 1))
        return np.frombuffer(array.tobytes("A"), "u1") ^ np.uint8(self.bits)

    def decode(self, buf: Any, out: Any = None) -> Any:
        return np.frombuffer(buf, "u1") ^ np.uint8(self.bits)


class Turn(Codec):  # type: ignore[misc]
    """Reverses the first axis, so that the shape matters."""

    codec_id = "t-turn"

    def __init__(self, shape: Any, dtype: str) -> None:
        self.shape, self.dtype = list(shape), dtype

    def encode(self, buf: Any) -> Any:
        array = ensure_ndarray(buf)
        assert array.shape == tuple(self.shape)
        return np.ascontiguousarray(array[::-1])

    def decode(self, buf: Any, out: Any = None) -> Any:
        return np.frombuffer(bytes(buf), self.dtype).reshape(self.shape)[::-1]


class Twice:
    """A class from no package. Stores each byte `times` times."""

    def __init__(self, times: int = 2) -> None:
        self.times = times

    def encode(self, buf: Any) -> bytes:
        return bytes(np.repeat(np.frombuffer(memoryview(buf).cast("B"), "u1"), self.times))

    def decode(self, buf: bytes) -> memoryview:
        return memoryview(buf[:: self.times])


class _Settings:
    name: ClassVar[str]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        return cls(**data.get("configuration", {}))

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "configuration": dict(vars(self))}


@dataclass(frozen=True)
class Add(_Settings, ArrayArrayCodec):  # type: ignore[misc]
    """Adds a number and makes 8-byte integers. Uses threads, like zarr-python's own codecs."""

    add: int = 1
    name: ClassVar[str] = "t.add"

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return input_byte_length * 2

    def resolve_metadata(self, chunk_spec: Any) -> Any:
        from dataclasses import replace

        from zarr.dtype import Int64

        return replace(chunk_spec, dtype=Int64(), fill_value=np.int64(chunk_spec.fill_value + self.add))

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        wide = await asyncio.to_thread(lambda: chunk_data.as_numpy_array().astype("i8") + self.add)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(wide)

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        native = chunk_spec.dtype.to_native_dtype()
        array = (chunk_data.as_numpy_array() - self.add).astype(native)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(array)


@dataclass(frozen=True)
class Text(_Settings, ArrayBytesCodec):  # type: ignore[misc]
    """Stores numbers as text: more bytes than any compressor would make."""

    base: int | None = None
    name: ClassVar[str] = "t.text"

    def evolve_from_array_spec(self, array_spec: Any) -> Any:
        return Text(10) if self.base is None else self

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        raise NotImplementedError

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        text = ",".join(map(str, chunk_data.as_numpy_array().ravel().tolist()))
        return chunk_spec.prototype.buffer.from_bytes(text.encode())

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        numbers = [int(n) for n in chunk_data.to_bytes().decode().split(",")]
        array = np.array(numbers, chunk_spec.dtype.to_native_dtype()).reshape(chunk_spec.shape)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(array)


@dataclass(frozen=True)
class Mark(_Settings, BytesBytesCodec):  # type: ignore[misc]
    """Puts one byte before all others."""

    byte: int = 7
    name: ClassVar[str] = "t.mark"

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return input_byte_length + 1

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return chunk_spec.prototype.buffer.from_bytes(bytes([self.byte]) + chunk_data.to_bytes())

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        data = chunk_data.to_bytes()
        if data[:1] != bytes([self.byte]):
            raise ValueError(f"no mark: {data[:1]!r}")
        return chunk_spec.prototype.buffer.from_bytes(data[1:])
