"""HDF5 and NetCDF files, with h5py's names."""
