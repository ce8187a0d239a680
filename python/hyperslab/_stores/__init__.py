"""Stores: local, in memory, remote, zip, and those of fsspec, obstore and zarr-python."""
