//! The Python package, for the work that only it can do.
//!
//! The package's wheel contains this program. Four things need Python: copies on clusters, pyramids,
//! codecs that are written in Python, and settings in environment variables, which the package reads. For
//! these the process becomes `python -m hyperslab` with the same arguments: terminal, signals and
//! exit code stay.
//!
//! Without the package, as after `cargo install hyperslab-cli`, the program works alone.

use hyperslab::codec::registry::{Finder, set_finder};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, iter};

/// The environment variables with settings of the package (`_base/config.py`).
const SETTINGS: [&str; 22] = [
    "HYPERSLAB_DECODES_IN_FLIGHT",
    "HYPERSLAB_EXTERNAL_FILES",
    "HYPERSLAB_FILE_LOCKS",
    "HYPERSLAB_FSYNC",
    "HYPERSLAB_ORDER",
    "HYPERSLAB_PARTIAL_DECODE",
    "HYPERSLAB_PARTIAL_READS",
    "HYPERSLAB_PICKLE_CREDENTIALS",
    "HYPERSLAB_READ_MISSING_CHUNKS",
    "HYPERSLAB_RECYCLER",
    "HYPERSLAB_REQUESTS_PER_SECOND",
    "HYPERSLAB_SHARD_INDEX_BOUND",
    "HYPERSLAB_THREADS",
    "HYPERSLAB_VERIFY_CHECKSUMS",
    "HYPERSLAB_VLEN_CHUNK_BOUND",
    "HYPERSLAB_WRITE_EMPTY_CHUNKS",
    "HYPERSLAB_ZARR_FORMAT",
    "ZARR_ARRAY__ORDER",
    "ZARR_ARRAY__READ_MISSING_CHUNKS",
    "ZARR_ARRAY__WRITE_EMPTY_CHUNKS",
    "ZARR_DEFAULT_ZARR_FORMAT",
    "ZARR_THREADING__MAX_WORKERS",
];

/// Succeeds if the package can be imported. Imports nothing of it.
const HAS_PACKAGE: &str =
    "import importlib.util as u; s = u.find_spec('hyperslab'); raise SystemExit(not (s and s.origin))";

/// The arguments of this process, if it is the program. `None` inside of a Python process.
static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

/// Allows [`continue_in_python`] from now on.
pub(crate) fn allow(args: &[OsString]) {
    let _ = PROGRAM.set(args.to_vec());
    set_finder(Finder {
        find: |_, _, _| {
            // A codec is first needed when its array is opened. Nothing is written before that.
            continue_in_python();
            None
        },
        makes_bytes: |_| {
            continue_in_python();
            false
        },
    });
}

/// Returns whether the environment has a setting that only the package reads.
pub(crate) fn is_configured() -> bool {
    SETTINGS.iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Replaces this process by the Python package's command, with the same arguments.
///
/// Returns if there is no such package, or if this process runs Python already.
pub(crate) fn continue_in_python() {
    let Some(args) = PROGRAM.get() else { return };
    if let Some(python) = python() {
        // Returns only if the system cannot start Python. The program then continues without it.
        let _ = isolated(python).args(["-m", "hyperslab"]).args(args.iter().skip(1)).exec();
    }
}

/// Python without the working directory among the folders of modules.
fn isolated(python: &OsStr) -> Command {
    let mut command = Command::new(python);
    command.arg("-P");
    command
}

/// The Python that has the package: the one beside this program, or else the user's.
fn python() -> Option<&'static OsStr> {
    static PYTHON: OnceLock<Option<OsString>> = OnceLock::new();
    let find = || {
        let program = env::current_exe().ok();
        let beside = program.as_deref().and_then(|program| program.parent());
        let candidates = ["python3", "python"].map(|name| beside.map(|folder| folder.join(name)));
        let mut candidates = candidates.into_iter().flatten().chain(iter::once(PathBuf::from("python3")));
        candidates.find(|python| has_package(python.as_os_str())).map(PathBuf::into_os_string)
    };
    PYTHON.get_or_init(find).as_deref()
}

fn has_package(python: &OsStr) -> bool {
    let silent = Stdio::null;
    let mut asked = isolated(python);
    asked.args(["-c", HAS_PACKAGE]).stdin(silent()).stdout(silent()).stderr(silent());
    asked.status().is_ok_and(|status| status.success())
}
