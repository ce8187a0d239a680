"""xarray's backend, and writing datasets."""
