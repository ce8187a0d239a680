"""Copies between servers: temporary arrays there, requests as planned, prices, and advice."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server
from support import assert_same
from test_plan_copy import Stopped, data, stop_after

# Maps to series, which memory cannot hold: 1024 chunks of 4 KiB.
SHAPE, MAPS, SERIES = (256, 64, 64), (1, 64, 64), (256, 2, 2)

# Chunks of four KiB are so small that reading them often is cheaper than temporary arrays. Not by
# these prices.
DEAR = {"get": 1.0, "put": 1.0}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        hs.create_array(
            "s3://bucket/a",
            data=data(SHAPE),
            chunks=MAPS,
            compressors=None,
            storage_options=server.s3_options,
        )
        yield server


def planned(server: Server, place: str = "s3://bucket/b", **wanted: Any) -> hs.CopyPlan:
    given: dict[str, Any] = {
        "chunks": SERIES,
        "max_memory": "192 KiB",
        "task_size": "64 KiB",
        "threads": 1,
        "compressors": None,
        "prices": DEAR,
        **wanted,
    }
    return hs.plan_copy("s3://bucket/a", place, storage_options=server.s3_options, **given)


def values(server: Server, place: str = "s3://bucket/b") -> Any:
    return hs.open_array(place, mode="r", storage_options=server.s3_options)[...]


def requests(server: Server) -> Counter[str]:
    """Returns how often objects were read and written, without journal, documents and listings."""
    return Counter(
        each["method"]
        for each in server.log()
        if ("/c/" in each["key"] or "/temporary/" in each["key"]) and each["method"] in ("GET", "PUT")
    )


def test_temporary_arrays_on_a_server(server: Server) -> None:
    plan = planned(server)
    assert plan.depth > 1 and plan.temporary_bytes == (plan.depth - 1) * plan.bytes
    server.reset()
    run = plan.run()
    found = requests(server)
    assert run.tasks == plan.tasks
    # The plan also counts a record in the journal for each range, and looks before and after it.
    records = sum(map(len, plan.stages))
    assert found["PUT"] == plan.puts - records
    assert found["GET"] == plan.gets - 2 * records
    assert_same(values(server), data(SHAPE))
    assert [key for key in server.list("bucket", "b/") if "hyperslab" in key] == []


def test_without_temporary_arrays_each_map_is_read_often(server: Server) -> None:
    """The judge of the plan: the same copy in one pass, with as little memory."""
    through, direct = planned(server), planned(server, prices={"put": 1000.0, "get": 0.0, "worker": 0.0})
    assert direct.depth == 1 and direct.arrays[0].passes[0].gets > 3 * through.gets
    server.reset()
    direct.run()
    assert requests(server)["GET"] == direct.gets - 2 * len(direct.stages[0])
    assert_same(values(server), data(SHAPE))


def test_a_run_with_temporary_arrays_is_killed_and_goes_on(server: Server) -> None:
    plan = planned(server)
    stops, total = 0, plan.tasks
    while True:
        try:
            with ThreadPoolExecutor(2) as pool:
                plan.run(pool, resume=True, progress=stop_after(total // 4))
        except Stopped:
            stops += 1
            total += 2
            with pytest.raises(FileNotFoundError):
                hs.open_array("s3://bucket/b", mode="r", storage_options=server.s3_options)
            continue
        break
    assert stops >= 2
    assert_same(values(server), data(SHAPE))
    assert [key for key in server.list("bucket", "b/") if "hyperslab" in key] == []


def test_a_lost_temporary_chunk_is_made_again(server: Server) -> None:
    """An absent chunk reads as fill values. Resuming finds that it is gone."""
    plan = planned(server)
    first = len(plan.stages[0])
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(first + 2))
    keys = [key for key in server.list("bucket", "b/") if "/temporary/0/" in key]
    assert keys
    server.request("DELETE", f"/bucket/{keys[len(keys) // 2]}")
    run = plan.run(resume=True)
    assert 0 < run.skipped < plan.tasks
    assert_same(values(server), data(SHAPE))


def test_the_end_is_repeated_if_temporary_arrays_are_gone(server: Server) -> None:
    """All tasks were done, then a chunk of the copy vanished: all stages that it needs run again."""
    plan = planned(server)
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(plan.tasks))
    key = server.list("bucket", "b/c/")[100]
    server.request("DELETE", f"/bucket/{key}")
    plan.run(resume=True)
    assert_same(values(server), data(SHAPE))


def test_given_up(server: Server) -> None:
    plan = planned(server)
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(len(plan.stages[0]) + 1))
    assert plan.discard()
    assert server.list("bucket", "b/") == []


def test_a_sparse_source_through_temporary_arrays(server: Server) -> None:
    options = server.s3_options
    z = hs.create_array(
        "s3://bucket/sparse", shape=SHAPE, chunks=MAPS, dtype="i4", compressors=None, storage_options=options
    )
    z[17] = 5
    z[200, 3] = 6
    plan = hs.plan_copy(
        z,
        "s3://bucket/b",
        chunks=SERIES,
        max_memory="192 KiB",
        task_size="64 KiB",
        threads=1,
        prices=DEAR,
        storage_options=options,
    )
    assert plan.depth > 1
    plan.run(verify=True)
    assert_same(values(server), z[...])


def test_into_a_region_through_temporary_arrays(server: Server) -> None:
    options = server.s3_options
    target = hs.create_array(
        "s3://bucket/t", shape=(512, 64, 64), chunks=SERIES, dtype="i4", storage_options=options
    )
    plan = hs.plan_copy(
        "s3://bucket/a",
        target,
        target_region=np.s_[256:],
        max_memory="192 KiB",
        task_size="64 KiB",
        threads=1,
        prices=DEAR,
        storage_options=options,
    )
    assert plan.depth > 1
    plan.run()
    assert_same(target[256:], data(SHAPE))
    assert not target[:256].any()
    assert [key for key in server.list("bucket", "t/") if "hyperslab" in key] == []


# ---- prices


def test_prices_choose_the_plan_and_are_printed(server: Server) -> None:
    plan = planned(server, prices=None)
    assert plan.prices == hs.CopyPrices()
    assert f"requests about {plan.gets:,} reads and {plan.puts:,} writes: $" in str(plan)
    assert f"with {plan.workers} workers" in str(plan)
    expected = plan.gets * 0.0004 / 1000 + plan.puts * 0.005 / 1000
    assert plan.dollars == pytest.approx(expected)
    # Writing is free: the same requests cost less.
    free = planned(server, prices={"put": 0.0})
    assert free.dollars == pytest.approx(free.gets * 0.0004 / 1000)
    assert free.id == plan.id
    again = hs.CopyPlan.from_json(free.to_json())
    assert again.prices == free.prices and again.dollars == free.dollars
    # Storage of temporary arrays, and egress.
    stored = planned(server, prices=hs.CopyPrices(storage=0.023, egress=0.09))
    assert stored.dollars > plan.dollars
    for prices in ({"put": -1}, {"gets": 1}, {"get": "free"}):
        with pytest.raises(hs.errors.InvalidArgumentError, match="prices"):
            planned(server, prices=prices)


def test_a_plan_that_is_ten_times_too_dear_is_said(server: Server) -> None:
    """Values of variable length have no temporary arrays. With more memory they need none."""
    options = server.s3_options
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        planned(server)
    hs.create_array(
        "s3://bucket/text",
        shape=(256, 32, 32),
        chunks=(1, 32, 32),
        dtype=np.dtypes.StringDType(),
        storage_options=options,
    )

    def plan(**wanted: Any) -> hs.CopyPlan:
        return hs.plan_copy(
            "s3://bucket/text",
            "s3://bucket/b",
            chunks=(256, 2, 2),
            workers=1,
            threads=1,
            storage_options=options,
            **wanted,
        )

    with pytest.warns(hs.errors.ZarrUserWarning, match=r"costs about \$.*with max_memory=\d+ it would cost"):
        dear = plan(max_memory="200 KiB", prices={"get": 10.0, "put": 0.001})
    assert "advice   /: this plan costs about $" in str(dear)
    advised = int(dear.arrays[0].advice.partition("max_memory=")[2].partition(" ")[0])
    cheap = plan(max_memory=advised, prices=dear.prices)
    assert 10 * cheap.dollars < dear.dollars and not cheap.arrays[0].advice
