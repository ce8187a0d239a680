"""Copies hierarchies of anndata: anndata reads the same from every copy."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest

anndata = pytest.importorskip("anndata")
pandas = pytest.importorskip("pandas")
sparse = pytest.importorskip("scipy.sparse")
pytest.importorskip("zarr")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    with anndata.settings.override(zarr_write_format=2, allow_write_nullable_strings=True):
        yield


def cells(seed: int) -> Any:
    """Returns every kind of element that anndata stores."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(5, 40)), int(rng.integers(3, 9))
    mask = rng.random(n) < 0.3
    mask[:2] = True, False

    def missing(values: Any, dtype: str) -> Any:
        return pandas.array([None if no else value for value, no in zip(values, mask)], dtype=dtype)

    obs = pandas.DataFrame(
        {
            "kind": pandas.Categorical(rng.choice(["a", "b", "é"], n)),
            # Missing categories have the code -1.
            "kind_missing": pandas.Categorical(
                [None if no else "xy"[at % 2] for at, no in enumerate(mask)],
                categories=["x", "y", "unused"],
                ordered=True,
            ),
            "whole": rng.integers(0, 9, n),
            "real": rng.random(n),
            "flag": rng.random(n) < 0.5,
            "whole_missing": missing(rng.integers(0, 9, n), "Int32"),
            "flag_missing": missing(rng.random(n) < 0.5, "boolean"),
            "text": [f"t{at}é" for at in range(n)],
            "text_missing": missing([f"s{at}" for at in range(n)], "string"),
        },
        index=[f"cell{at}" for at in range(n)],
    )
    var = pandas.DataFrame(index=[f"gene{at}" for at in range(m)])
    # Without text: h5ad stores text of any length in fields, which Zarr does not support.
    record = np.array([(1, 2.5), (3, 4.5)], dtype=[("x", "i4"), ("y", "f8")])
    made = anndata.AnnData(
        sparse.random(n, m, 0.3, "csr", dtype="f4", random_state=rng),
        obs=obs,
        var=var,
        layers={"columns": sparse.random(n, m, 0.3, "csc", random_state=rng), "dense": rng.random((n, m))},
        obsm={
            "pca": rng.random((n, 3)),
            "frame": pandas.DataFrame({"p": rng.random(n), "q": obs["kind"]}, index=obs.index),
        },
        varm={"loadings": rng.integers(0, 9, (m, 2))},
        obsp={"empty": sparse.csr_matrix((n, n))},
        uns={
            "nested": {"whole": 1, "real": 2.5, "flag": True, "text": "été", "deep": {"array": np.arange(5)}},
            "texts": np.array(["u", "", "été"], object),
            "nothing": np.zeros(0),
            "record": record,
            "frame": pandas.DataFrame({"z": [1, 2]}, index=["i", "j"]),
        },
    )
    made.raw = made
    return made


def written(made: Any, place: Path) -> Any:
    """Writes and reads back with anndata."""
    if place.suffix == ".h5ad":
        made.write_h5ad(place)
        return anndata.read_h5ad(place)
    anndata.settings.zarr_write_format = 2 if "v2" in place.name else 3
    made.write_zarr(place)
    return anndata.read_zarr(place)


@pytest.mark.parametrize("name", ["cells.h5ad", "cells.v2.zarr", "cells.v3.zarr"])
def test_copies_are_equal(name: str, seed: int, tmp_path: Path) -> None:
    from anndata.tests.helpers import assert_equal

    want = written(cells(seed), tmp_path / name)
    made = {(): tmp_path / name}
    for chain in ((2,), (3,), (2, 3), (3, 2)):
        target = tmp_path / f"{'-'.join(map(str, chain))}.zarr"
        hs.copy(made[chain[:-1]], target, zarr_format=chain[-1], verify=True)
        made[chain] = target
        assert_equal(anndata.read_zarr(target), want, exact=True, elem_name=f"{name} to {chain}")
