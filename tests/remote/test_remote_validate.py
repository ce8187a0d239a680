"""Validation of stores and files on servers, by URL and options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server
from servers import KINDS, Running, obstore_of, started

SCHEMES = {"moto": "s3", "azurite": "az", "fake-gcs-server": "gs"}


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[[str], Running]]:
    with started() as start:
        yield start


def written(url: str, options: dict[str, str]) -> None:
    group = hs.create_group(url, storage_options=options)
    group.create_array("a", data=np.arange(1000.0).reshape(20, 50), chunks=(10, 10))
    group.create_array("below/b", data=np.arange(100.0), chunks=(5,), shards=(50,))
    damaged = group.store.get("a/c/1/2")
    assert damaged is not None
    group.store.set("a/c/1/2", damaged[:-3])


def kinds(report: hs.ValidationReport) -> list[tuple[str, str, Any]]:
    assert not report.unreached
    return [(found.kind, found.path, found.chunk) for found in report]


EXPECTED = [("damaged-chunk", "/a", (1, 2))]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in SCHEMES])
def test_real_servers(tmp_path: Path, start: Callable[[str], Running], kind: str) -> None:
    server = start(kind)
    url, options = f"{SCHEMES[kind]}://bucket/whole.zarr", server.options
    written(url, options)
    assert kinds(hs.validate(url, storage_options=options)) == []
    report = hs.validate(url, decode=True, storage_options=options)
    assert kinds(report) == EXPECTED
    assert report.findings[0].location == url
    # One location takes the options, the other does not need them.
    hs.save_array(tmp_path / "here", np.arange(3))
    assert kinds(hs.validate(url, str(tmp_path / "here"), decode=True, storage_options=options)) == EXPECTED
    [cost] = hs.validation_cost(url, decode=True, storage_options=options)
    assert (cost.location, cost.objects) == (url, 12)
    with pytest.raises(TypeError, match="storage_options"):
        hs.validate(str(tmp_path / "here"), storage_options=options)
    for name in ("one.h5", "one.nc"):
        with hs.File(tmp_path / name, "w") as file:
            file["a"] = np.arange(10)
        obstore = pytest.importorskip("obstore")
        obstore.put(obstore_of(kind, server), name, (tmp_path / name).read_bytes())
        place = f"{SCHEMES[kind]}://bucket/{name}"
        assert kinds(hs.validate(place, decode=True, storage_options=options)) == []


def test_plans_and_journals(tmp_path: Path) -> None:
    with Server() as server:
        url, options, journal = "s3://bucket/a.zarr", server.s3_options, tmp_path / "journal"
        written(url, options)
        plan = hs.plan_validation(url, task_size="1 KB", storage_options=options)
        assert len(plan.parts) > 1
        assert "secret" not in repr(plan).lower()
        with ThreadPoolExecutor(2) as executor:
            assert kinds(plan.run(executor)) == EXPECTED
        assert kinds(hs.validate(url, decode=True, resume=journal, storage_options=options)) == EXPECTED
        server.reset()
        assert kinds(hs.validate(url, decode=True, resume=journal, storage_options=options)) == EXPECTED
        read = [path for method, path in server.requests() if method == "GET" and "/c/" in path]
        assert [path for path in read if "/a/c/" in path] == []
        # Another object under the same key.
        group = hs.open_group(url, storage_options=options)
        whole = group.store.get("a/c/1/1")
        assert whole is not None
        group.store.set("a/c/0/0", whole[:-2])
        found = kinds(hs.validate(url, decode=True, resume=journal, storage_options=options))
        assert found == [("damaged-chunk", "/a", (0, 0)), *EXPECTED]


def test_what_cannot_be_reached() -> None:
    with Server() as server:
        written("s3://bucket/a.zarr", server.s3_options)
        report = hs.validate("s3://bucket/none.zarr", storage_options=server.s3_options)
        assert list(report.unreached) == ["s3://bucket/none.zarr"]
        wrong = {**server.s3_options, "secret_access_key": "a wrong one"}
        report = hs.validate("s3://other/a.zarr", storage_options=wrong)
        assert report.unreached
        assert "a wrong one" not in str(report.unreached)
