"""OME-Zarr in copies between Zarr formats: metadata version 0.4 is for Zarr v2, 0.5 for v3.

The rules are from https://ngff.openmicroscopy.org/0.4 and https://ngff.openmicroscopy.org/0.5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest

zarr = pytest.importorskip("zarr")

PARTS = {"multiscales", "omero", "labels", "image-label", "plate", "well", "bioformats2raw.layout", "series"}
AXES = [
    {"name": "t", "type": "time", "unit": "second"},
    {"name": "c", "type": "channel"},
    {"name": "z", "type": "space", "unit": "micrometer"},
    {"name": "y", "type": "space", "unit": "micrometer"},
    {"name": "x", "type": "space", "unit": "micrometer"},
]
COLORS = [{"label-value": 0, "rgba": [0, 0, 128, 128]}, {"label-value": 1}]


class Writer:
    """Writes a hierarchy in one of the two versions."""

    def __init__(self, place: Path, version: int) -> None:
        self.version = version
        self.root = zarr.open_group(place, mode="w", zarr_format=version)
        self.rng = np.random.default_rng(0)

    def group(self, path: str, parts: dict[str, Any], **others: Any) -> Any:
        group = self.root.require_group(path) if path else self.root
        if self.version == 3:
            parts = {"ome": {"version": "0.5", **parts}}
        group.attrs.update({**others, **parts})
        return group

    def stated(self, part: dict[str, Any]) -> dict[str, Any]:
        """Returns a part with its version."""
        return {**part, "version": "0.4" if self.version == 2 else "0.5"}

    def image(self, path: str, rank: int = 3, *, dtype: str = "u2", **parts: Any) -> None:
        """Writes an image with two resolutions."""
        axes = AXES[-rank:] if rank != 3 else [AXES[1], *AXES[3:]]
        datasets = []
        for level in range(2):
            scale = [1.0] * (rank - 2) + [0.5 * 2**level] * 2
            datasets.append(
                {"path": f"{level}", "coordinateTransformations": [{"type": "scale", "scale": scale}]}
            )
        multiscale = {"name": "image", "axes": axes, "datasets": datasets, "type": "gaussian"}
        if self.version == 2:
            multiscale["version"] = "0.4"
        group = self.group(path, {"multiscales": [multiscale], **parts}, acquired="today")
        for level in range(2):
            shape = (2,) * (rank - 2) + (16 >> level, 12 >> level)
            options: dict[str, Any] = {"dimension_names": [axis["name"] for axis in axes]}
            if self.version == 2:
                options = {"chunk_key_encoding": {"name": "v2", "separator": "/"}}
            array = group.create_array(
                f"{level}", shape=shape, dtype=dtype, chunks=tuple(max(1, n // 2) for n in shape), **options
            )
            array[...] = self.rng.integers(0, 99, shape)


def write_image(place: Path, version: int) -> None:
    writer = Writer(place, version)
    channels = [{"color": "0000FF", "label": "LaminB1", "window": {"min": 0, "max": 65535}}]
    writer.image("", 5, omero={"id": 1, "channels": channels, "rdefs": {"model": "color"}})
    writer.group("labels", {"labels": ["cells", "deep/nuclei"]})
    source = {"image": "../../"}
    writer.image(
        "labels/cells", 5, dtype="i4", **{"image-label": writer.stated({"colors": COLORS, "source": source})}
    )
    writer.image("labels/deep/nuclei", 5, dtype="i4", **{"image-label": {"colors": COLORS}})
    # These attributes are not OME-Zarr.
    writer.root.create_group("tables").attrs.update(
        {"labels": ["cat", "dog"], "well": "done", "series": ["a"]}
    )


def write_plate(place: Path, version: int) -> None:
    writer = Writer(place, version)
    plate = {
        "acquisitions": [{"id": 1, "maximumfieldcount": 2, "name": "first"}],
        "columns": [{"name": "1"}, {"name": "2"}],
        "field_count": 2,
        "name": "test",
        "rows": [{"name": "A"}],
        "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}],
    }
    writer.group("", {"plate": writer.stated(plate)})
    images = [{"path": "0", "acquisition": 1}, {"path": "1", "acquisition": 1}]
    writer.group("A/1", {"well": writer.stated({"images": images})})
    writer.image("A/1/0")
    writer.image("A/1/1", 2)


def write_collection(place: Path, version: int) -> None:
    writer = Writer(place, version)
    writer.group("", {"bioformats2raw.layout": 3})
    writer.group("OME", {"series": ["0", "1"]})
    writer.image("0")
    writer.image("1")


HIERARCHIES = {"image": write_image, "plate": write_plate, "collection": write_collection}


def described(place: Path) -> dict[str, Any]:
    """Returns all attributes of a hierarchy, by path."""
    root = zarr.open_group(place, mode="r")
    found = {"": root.attrs.asdict()}
    for path, node in root.members(max_depth=None):
        found[path] = node.attrs.asdict()
    return found


def without_names(attributes: dict[str, Any]) -> dict[str, Any]:
    """Removes the axis names that xarray reads. Version 0.4 does not define them."""
    return {
        path: {name: value for name, value in one.items() if name != "_ARRAY_DIMENSIONS"}
        for path, one in attributes.items()
    }


def check_images(place: Path, version: int) -> int:
    """Checks the place of the metadata and the axes of every image.

    Returns the number of images.
    """
    root = zarr.open_group(place, mode="r")
    count = 0
    for _, group in [("", root), *root.members(max_depth=None)]:
        attributes = group.attrs.asdict()
        if version == 3:
            assert not PARTS & {*attributes} or "tables" in group.path
            attributes = attributes.get("ome", {})
            assert attributes.get("version", "0.5") == "0.5"
        else:
            assert "ome" not in attributes
        for multiscale in attributes.get("multiscales", []):
            assert multiscale.get("version") == (None if version == 3 else "0.4")
            names = [axis["name"] for axis in multiscale["axes"]]
            for dataset in multiscale["datasets"]:
                array = group[dataset["path"]]
                assert array.ndim == len(names)
                if version == 3:
                    assert [*array.metadata.dimension_names] == names
                else:
                    assert array.metadata.dimension_separator == "/"
                count += 1
    return count


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", HIERARCHIES)
def test_there_and_back(kind: str, version: int, tmp_path: Path) -> None:
    HIERARCHIES[kind](tmp_path / "source", version)
    other = 5 - version
    hs.copy(tmp_path / "source", tmp_path / "there", zarr_format=other, verify=True)
    hs.copy(tmp_path / "there", tmp_path / "back", zarr_format=version, verify=True)
    images = check_images(tmp_path / "source", version)
    assert images >= 4
    assert check_images(tmp_path / "there", other) == images
    assert check_images(tmp_path / "back", version) == images
    assert without_names(described(tmp_path / "back")) == described(tmp_path / "source")

    # The copy equals a hierarchy that was written in the other version.
    HIERARCHIES[kind](tmp_path / "expected", other)
    assert without_names(described(tmp_path / "there")) == described(tmp_path / "expected")
    expected, found = (zarr.open_group(tmp_path / name, mode="r") for name in ("expected", "there"))
    for path, node in expected.members(max_depth=None):
        if isinstance(node, zarr.Array):
            np.testing.assert_array_equal(found[path][...], node[...])


@pytest.mark.parametrize("version", [2, 3])
def test_one_format(version: int, tmp_path: Path) -> None:
    write_image(tmp_path / "source", version)
    hs.copy(tmp_path / "source", tmp_path / "copy", zarr_format=version)
    assert described(tmp_path / "copy") == described(tmp_path / "source")
