//! Parsers as functions of bytes alone, for the fuzz targets `locations` and `cache_entry`.

use crate::cache::parse_entry;
use crate::location::{Location, Provider};
use crate::marks::Marks;
use crate::options::Options;
use crate::profile;
use std::fs::File;
use std::io::{Seek, Write};
use std::sync::Mutex;

/// The number of the object whose entries are read.
pub const CACHED: [u8; 32] = [7; 32];

/// Parses a location, and options for its server: a name and a value on each line.
pub fn options(location: &str, options: &str) {
    let provider = Location::parse(location).map_or(Provider::S3, |location| location.provider);
    let pair = |line: &str| {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        (name.to_owned(), value.to_owned())
    };
    let given: Vec<_> = options.lines().map(pair).collect();
    let _ = Options::new(provider, &given);
}

/// Parses a file of credentials, and text as marks.
pub fn profile(text: &str) {
    let mut found = profile::Profile::new();
    profile::read(text, &profile::sections("default"), &mut found);
    let _ = Marks::parse(text);
}

/// The file of an entry with this head and payload.
pub fn framed(head: &[u8], payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(head.len()).unwrap_or_default().to_le_bytes();
    let sum = crc_fast::crc32_iscsi(head).to_le_bytes();
    [crate::cache::ENTRY_MAGIC.as_slice(), &len, &sum, head, payload].concat()
}

/// Reads an entry of the cache, and all of its bytes. The entry is a file without a name.
pub fn cache_entry(bytes: &[u8]) {
    static FILE: Mutex<Option<File>> = Mutex::new(None);
    let Ok(mut file) = FILE.lock() else { return };
    if file.is_none() {
        let made = rustix::fs::memfd_create("entry", rustix::fs::MemfdFlags::empty());
        *file = made.ok().map(File::from);
    }
    let Some(file) = file.as_mut() else { return };
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(bytes));
    if written.is_ok() {
        parse_entry(file, &CACHED);
    }
}
