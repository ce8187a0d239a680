"""Stores, under the names of ``zarr.storage``.

Examples
--------
>>> from hyperslab.storage import MemoryStore
>>> import hyperslab as hs
>>> hs.create_array(MemoryStore(), shape=(3,), dtype="i4").shape
(3,)
"""

from hyperslab._stores.remote import RemoteStore
from hyperslab._stores.store import FileStore, LocalStore, MemoryStore, Store, StoreLike, StorePath
from hyperslab._stores.zarr import ZarrStore
from hyperslab._stores.zip import ZipStore

__all__ = [
    "FileStore",
    "LocalStore",
    "MemoryStore",
    "RemoteStore",
    "Store",
    "StoreLike",
    "StorePath",
    "ZarrStore",
    "ZipStore",
]


def __dir__() -> list[str]:
    return sorted(__all__)
