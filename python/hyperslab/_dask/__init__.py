"""Arrays of dask, read and written block by block."""
