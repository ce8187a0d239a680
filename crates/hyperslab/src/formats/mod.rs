//! The formats: each turns its own arrays, groups and files into nodes of this crate.

pub(crate) mod data_file;
pub(crate) mod format;
pub(crate) mod hdf5_array;
pub(crate) mod hdf5_file;
pub(crate) mod hdf5_group;
pub(crate) mod hdf5_json;
pub(crate) mod hdf5_write;
pub(crate) mod local_files;
pub(crate) mod netcdf_array;
pub(crate) mod netcdf_file;
pub(crate) mod zarr_node;
