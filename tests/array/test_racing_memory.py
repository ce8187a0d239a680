"""Writes arrays that another thread changes meanwhile.

Values may be mixed, but nothing else breaks.
"""

import subprocess
import sys

import pytest

# Runs in its own process, because a failure would end the process.
STRESS = """
import sys, threading, time
import numpy as np, hyperslab as hs

n = 60_000
rng = np.random.default_rng(7)
rare = np.arange(240, 256, dtype="u1")
a = rng.integers(0, 113, n).astype("u1"); a[rng.choice(n, 16, replace=False)] = rare
b = rng.choice(rare, n).astype("u1")
if sys.argv[1] == "constant":
    a[:], b[:] = 17, 201
x = a.copy()
named = lambda name, **configuration: {"name": name, "configuration": configuration}
blosc = lambda cname, clevel, shuffle: named(
    "blosc", cname=cname, clevel=clevel, shuffle=shuffle, typesize=1, blocksize=0
)
lz4, zlib = named("numcodecs.lz4", acceleration=1), named("numcodecs.zlib", level=1)
zstd, summed = named("zstd", level=1, checksum=False), named("zstd", level=3, checksum=True)
CODECS = [None, lz4, zlib, zstd, summed, {"name": "crc32c"}, [zstd, {"name": "crc32c"}]]
CODECS += [named("gzip", level=level) for level in (0, 1, 6)]
for shuffle in ("noshuffle", "bitshuffle"):
    CODECS += [blosc(cname, 5, shuffle) for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")]
CODECS += [blosc("zlib", 1, "noshuffle"), blosc("lz4", 0, "noshuffle")]
stop = False
def flip():
    while not stop:
        np.copyto(x, a); time.sleep(0.0003)
        np.copyto(x, b); time.sleep(0.0001)
thread = threading.Thread(target=flip); thread.start()
try:
    for codec in CODECS:
        for shards in (None, (n,)):
            chunks = (n // 4,) if shards else (n,)
            z = hs.create_array(
                hs.MemoryStore(), shape=(n,), chunks=chunks, shards=shards, dtype="u1", compressors=codec
            )
            end = time.monotonic() + 0.1
            while time.monotonic() < end:
                z[:] = x
                found = z[:]
                if sys.argv[1] == "constant":
                    assert ((found == 17) | (found == 201)).all(), codec
finally:
    stop = True
    thread.join()
print("done")
"""


@pytest.mark.parametrize("content", ["constant", "rare"])
def test_chunks_written_from_changing_memory_decode(content: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STRESS, content], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr[-2000:]
