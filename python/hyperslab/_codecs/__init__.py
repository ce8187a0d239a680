"""Codecs as users give them: names and classes of Zarr, numcodecs and users."""
