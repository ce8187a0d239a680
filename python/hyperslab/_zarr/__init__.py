"""zarr-python reading and writing through hyperslab: its codec pipeline and its functions."""
