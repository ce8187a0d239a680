//! Files that commands write: completely, or not at all.

use crate::failure::Failure;
use hyperslab::Error;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The error of the file, or another one.
type Written = Result<io::Result<()>, Failure>;

/// Writes a file completely or not at all. Writes directly to a pipe or a device.
pub(crate) fn write_whole(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn Write) -> Written,
) -> Result<(), Failure> {
    let fail = |source| Failure::from(Error::Io { what: "write", path: path.to_owned(), source });
    let special = fs::metadata(path).is_ok_and(|found| !found.is_file());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let temporary = match name.filter(|_| !special) {
        // Processes in two containers may have one number.
        Some(name) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
            path.with_file_name(format!(".{name}.{}-{now:x}.hyperslab-tmp", std::process::id()))
        }
        None => path.to_owned(),
    };
    let made = if temporary == path { File::create(path) } else { File::create_new(&temporary) };
    let mut file = BufWriter::new(made.map_err(fail)?);
    let written = fill(&mut file).and_then(|done| done.and_then(|()| file.flush()).map_err(fail));
    if temporary == path {
        return written;
    }
    written.and_then(|()| fs::rename(&temporary, path).map_err(fail)).inspect_err(|_| {
        // Only the first error is reported.
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_or_as_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        write_whole(&path, &mut |out| Ok(out.write_all(b"one"))).unwrap();
        let failed = write_whole(&path, &mut |out| {
            out.write_all(b"two").unwrap();
            Err(Failure::Usage("no".into()))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
