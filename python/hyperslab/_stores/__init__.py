"""Stores: local, in memory, remote, zip, and stores of fsspec, obstore and zarr-python."""
