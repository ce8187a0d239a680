//! The Python extension module `hyperslab._native`: the engine of the Python package.
//!
//! The package gives it structure and documentation. This module has the parts that must be fast or
//! unsafe: indexing, results that own Rust memory, and values from NumPy's memory. Everything else
//! is Python. The GIL is released around every call that works or waits.
//!
//! The module declares that it needs the GIL (`gil_used`). Its `unsafe` code relies on the GIL in
//! two places. It reads references out of arrays of objects, and it reads Arrow's capsules while
//! nobody may release them. No other lock protects these. (A free-threaded Python does not load a
//! wheel of the stable ABI anyway.) Nothing relies on the GIL to keep the contents of NumPy's
//! memory: NumPy itself changes arrays without it.

mod errors;
mod gil;
mod hdf5;
mod index;
mod jobs;
mod nodes;
mod settings;
mod stores;
mod user_codecs;
mod values;

use pyo3::prelude::*;
use std::ffi::OsString;

#[pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::gil::stop::Stopper;
    #[pymodule_export]
    use crate::hdf5::attributes::AttributeHandle;
    #[pymodule_export]
    use crate::hdf5::editor::{
        Editor, edit_file, encodes_filter, filter_name, paginate_file, paginated_image, part_beside,
        remove_parts,
    };
    #[pymodule_export]
    use crate::hdf5::netcdf3::{
        abandon_netcdf3, create_netcdf3, edit_netcdf3, flush_netcdf3, netcdf3_header, netcdf3_type,
        netcdf3_with_records,
    };
    #[pymodule_export]
    use crate::hdf5::netcdf4::{
        NetcdfDefinitions, is_netcdf4, netcdf_chunks, netcdf_dimensions, netcdf_fill,
    };
    #[pymodule_export]
    use crate::hdf5::new_values::NewValues;
    #[pymodule_export]
    use crate::hdf5::quick::{create_plain, set_plain_attribute};
    #[pymodule_export]
    use crate::hdf5::references::{Reference, RegionReference};
    #[pymodule_export]
    use crate::hdf5::stored_types::StoredType;
    #[pymodule_export]
    use crate::hdf5::{DatatypeHandle, ElementHandle, convert_elements};
    #[pymodule_export]
    use crate::index::fields::{explain_field, read_field, write_field};
    #[pymodule_export]
    use crate::index::kind::pop_fields;
    #[pymodule_export]
    use crate::jobs::advise::{advise_array, advise_shape};
    #[pymodule_export]
    use crate::jobs::compact::compact_file;
    #[pymodule_export]
    use crate::jobs::content_hash::content_hash;
    #[pymodule_export]
    use crate::jobs::copy::{copy, copy_into};
    #[pymodule_export]
    use crate::jobs::copy_parts::{GroupsAbove, in_options, on_copy_step, planned_copy, planned_pyramid};
    #[pymodule_export]
    use crate::jobs::copy_tasks::{
        CopyPlace, CopyWorker, TaskPlan, TaskRange, TaskRun, TaskStep, plan_tasks,
    };
    #[pymodule_export]
    use crate::jobs::diff::diff_nodes;
    #[pymodule_export]
    use crate::jobs::join::{joined, joined_sources, split_parts};
    #[pymodule_export]
    use crate::jobs::repair::{repair_location, undo_repair};
    #[pymodule_export]
    use crate::jobs::serve::ServerHandle;
    #[pymodule_export]
    use crate::jobs::statistics::{
        packing, statistics_blocks, statistics_joined, statistics_part, statistics_types,
    };
    #[pymodule_export]
    use crate::jobs::stream::Stream;
    #[pymodule_export]
    use crate::jobs::validate::{validate_all, validate_cost, validate_join, validate_part, validate_plan};
    #[pymodule_export]
    use crate::jobs::writer::{Writer, finish_writers};
    #[pymodule_export]
    use crate::nodes::array::ArrayBase;
    #[pymodule_export]
    use crate::nodes::attributes::StoredAttributes;
    #[pymodule_export]
    use crate::nodes::cache::CacheBase;
    #[pymodule_export]
    use crate::nodes::create::{
        chunk_key, chunk_of_key, create_array, create_group, remove_below, v3_data_type,
    };
    #[pymodule_export]
    use crate::nodes::decoding::Decoding;
    #[pymodule_export]
    use crate::nodes::group::GroupBase;
    #[pymodule_export]
    use crate::nodes::handles::{ArrayHandle, GroupHandle, array_of_document};
    #[pymodule_export]
    use crate::nodes::meaning::{FileMeaning, carried_attributes, number_attributes, user_attributes};
    #[pymodule_export]
    use crate::nodes::open::{find_place, open_node, open_place};
    #[pymodule_export]
    use crate::run_cli;
    #[pymodule_export]
    use crate::settings::{
        recycled_bytes, set_decodes_in_flight, set_external_files, set_file_locks, set_partial_decode,
        set_partial_reads, set_read_missing_chunks, set_recycler_bound, set_requests_per_second,
        set_shard_index_bound, set_threads, set_verify_checksums, set_vlen_chunk_bound,
        set_write_empty_chunks,
    };
    #[pymodule_export]
    use crate::stores::presented::PresentedFile;
    #[pymodule_export]
    use crate::stores::store::{
        StoreHandle, finish_archives, is_file_url, is_secret_option, shown, takes_storage_options,
    };
    #[pymodule_export]
    use crate::user_codecs::{is_reserved_codec, set_codec_finder};
    #[pymodule_export]
    use crate::values::arrow::{arrow_array, arrow_of_values, arrow_schema};
    #[pymodule_export]
    use crate::values::arrow_input::arrow_values;
    #[pymodule_export]
    use crate::values::elements::{largest_element, small_numbers};
    #[pymodule_export]
    use crate::values::frozen::frozen;
    #[pymodule_export]
    use crate::values::objects::{object_bytes, objects_array};
    #[pymodule_export]
    use crate::values::optional::{check_out, pack_optional, to_masked_array, type_of};
    #[pymodule_export]
    use crate::values::ragged::{
        ragged_check_text, ragged_fixed, ragged_objects, ragged_strings, ragged_take, ragged_views,
        set_ragged_class,
    };
    #[pymodule_export]
    use crate::values::vlen_input::ragged_of;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Must run before any of our threads start.
        hyperslab::store::fork::prepare();
        crate::gil::once::make_early(module.py());
        crate::stores::store::prepare_remote();
        hyperslab::store::ending::ends_with(crate::gil::attach::is_ending);
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Runs the command line with these arguments, starting with the program's name. Returns the exit
/// code.
#[pyfunction]
fn run_cli(py: Python<'_>, args: Vec<OsString>) -> i32 {
    py.detach(|| hyperslab_cli::run(args))
}
