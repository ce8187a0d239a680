#!/usr/bin/env bash
# Puts zarr-python's own tests into build/zarr-tests/.
#
# tests/zarr/test_zarr_suite.py runs them with our pipeline. They come from zarr-python's source
# distribution, downloaded once. Without the download the test is skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

version=3.4.2
sha256=645d64f292f457120fc0ca18dbe38f665b4c21aaea38a2a88b5eead8f06f3d28

folder=$PWD/build/zarr-tests
if [[ -d $folder/zarr-$version ]]; then exit 0; fi
if ! grep -qx "zarr==$version" requirements/py312.txt; then
    echo "    not there: the tests of zarr $(sed -n 's/^zarr==//p' requirements/py312.txt):" \
        "$0 knows those of $version" >&2
    exit 0
fi
rm -rf "$folder"
mkdir -p "$folder/new"
echo "zarr==$version --hash=sha256:$sha256" >"$folder/requirements"
if "$(scripts/find-python.sh newest)" -m pip download --quiet --no-deps --no-binary zarr --dest "$folder" \
    --requirement "$folder/requirements" >"$folder/log" 2>&1 &&
    tar -xzf "$folder/zarr-$version.tar.gz" -C "$folder/new"; then
    # The final name exists only after everything is unpacked.
    mv "$folder/new/zarr-$version" "$folder"
    echo "    zarr-python's tests ($version)" >&2
else
    echo "    not there: zarr-python's tests ($version), which tests/zarr/test_zarr_suite.py skips then:" >&2
    tail -n 3 "$folder/log" | sed 's/^/        /' >&2
fi
