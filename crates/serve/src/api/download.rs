//! `download`: a selection as a file.

use super::{Asked, Place};
use crate::answer::{Answer, Asset, Source};
use crate::body::Readable;
use crate::values;
use bytes::Bytes;
use hyperslab::array::{ArrayError, element_count};
use hyperslab::copy::{CopyOptions, Phase, Progress, Region, copy};
use hyperslab::look::{ColorMap, Picture, PictureOptions, Reader, Window, write_csv, write_npy};
use hyperslab::meaning::coordinate;
use hyperslab::{Array, Error, Node, Result, open_node};
use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Most bytes of elements in a file. It is made on the disk of temporary files before it is sent.
const MOST_COPIED: u64 = 1 << 30;
/// Most pixels of a picture along each axis.
const MOST_PIXELS: usize = 4096;

/// A selection as an attachment.
pub(super) fn download(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let window = asked.window(array)?;
    let form = asked.value("format").unwrap_or_else(|| "nc".into());
    let (media, source, len) = match form.as_str() {
        "nc" => copied(place, array, &window, asked, "nc", "application/x-netcdf")?,
        "zarr.zip" => copied(place, array, &window, asked, "zarr.zip", "application/zip")?,
        "npy" | "csv" | "png" => {
            let bytes = made(place, array, &window, asked, &form)?;
            let media = match form.as_str() {
                "csv" => "text/csv; charset=utf-8",
                "png" => "image/png",
                _ => "application/octet-stream",
            };
            let len = bytes.len() as u64;
            (media, Source::Memory(bytes.into()), len)
        }
        other => {
            let why = format!("format: expected nc, zarr.zip, npy, csv or png, found {other:?}");
            return Err(Error::Options(why));
        }
    };
    // Each request makes the file anew, so parts of two of them need not fit.
    let whole = hyper::header::HeaderMap::new();
    let answer = Answer::asset(Asset { len, tag: None, media, source }, &whole, asked.head)?;
    let answer = answer.with("accept-ranges", "none");
    Ok(answer.with("content-disposition", &format!("attachment; filename=\"{}.{form}\"", stem(place))))
}

/// The name of the file, of characters that every system allows.
fn stem(place: &Place<'_>) -> String {
    let name = place.parts.last().map(String::as_str).unwrap_or_default();
    let kept: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
    let kept = kept.trim_matches('.');
    if kept.is_empty() { "array".into() } else { kept.to_owned() }
}

/// A file in memory.
fn made(place: &Place<'_>, array: &Array, window: &Window, asked: &Asked<'_>, form: &str) -> Result<Vec<u8>> {
    let reader = Reader::of(array, false)?;
    let name = place.parts.last().map(String::as_str).unwrap_or_default();
    if form == "png" {
        let range = (asked.number("low")?, asked.number("high")?);
        let pixels = |name| Ok::<_, Error>(asked.number(name)?.unwrap_or(800).clamp(1, MOST_PIXELS));
        let map = |text: String| text.parse::<ColorMap>().map_err(Error::Options);
        let options = PictureOptions {
            width: pixels("width")?,
            height: pixels("height")?,
            colors: asked.value("map").map(map).transpose()?,
            range: range.0.zip(range.1),
            robust: true,
        };
        // While a picture is made, an element takes about 64 bytes.
        let bytes = (options.width * options.height) as u64 * 64;
        if bytes > asked.most {
            return Err(ArrayError::Memory { array: array.name(), what: "a picture", bytes }.into());
        }
        let picture = Picture::of(&reader, window, &options, asked.ask)?;
        return picture.to_png(name, options.width, options.height);
    }
    let mut window = window.clone();
    for (axis, len) in window.axes.iter_mut().zip(array.shape()) {
        // Coordinates that are not served are not written.
        if let Some(name) = &axis.name
            && coordinate(array, name, *len)?.is_some_and(|found| place.path_of(&found).is_none())
        {
            axis.name = None;
        }
    }
    let window = &window;
    // Text of an element takes up to 24 bytes, and 8 more for coordinates that few axes have.
    values::bounded(array, &window.selection(array)?, asked.most / if form == "csv" { 8 } else { 1 })?;
    let mut out = Bounded { bytes: Vec::new(), most: asked.most };
    let written = match form {
        "csv" => write_csv(&reader, window, name, false, &mut out, asked.ask)?,
        _ => write_npy(&reader, window, &mut out, asked.ask)?,
    };
    let large = |_| ArrayError::Memory { array: array.name(), what: "a file", bytes: asked.most };
    written.map_err(large)?;
    Ok(out.bytes)
}

/// Bytes in memory that end at a limit.
struct Bounded {
    bytes: Vec<u8>,
    most: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.bytes.len() + bytes.len()) as u64 > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A copy of a part, with its coordinates if axes have names.
fn copied(
    place: &Place<'_>,
    array: &Array,
    window: &Window,
    asked: &Asked<'_>,
    ending: &str,
    media: &'static str,
) -> Result<(&'static str, Source, u64)> {
    if window.axes.iter().any(|axis| axis.step != 1) {
        let why = format!("select: a file of format {ending} has slices of step 1; ask for npy or csv");
        return Err(Error::Options(why));
    }
    let lens: Vec<u64> = window.axes.iter().map(|axis| axis.len).collect();
    let size = if array.vlen().is_some() { 16 } else { array.dtype().size() as u64 };
    let bytes = element_count(&lens).and_then(|count| count.checked_mul(size)).unwrap_or(u64::MAX);
    if bytes > MOST_COPIED {
        return Err(ArrayError::Memory { array: array.name(), what: "a file", bytes }.into());
    }
    let Some(room) = Room::take(bytes) else { return Err(Error::Interrupted) };
    let bound = |at: u64| Some(i64::try_from(at).unwrap_or(i64::MAX));
    let bounds = window.axes.iter().map(|axis| (bound(axis.first), bound(axis.first + axis.len)));
    let names: Option<Vec<String>> = window.axes.iter().map(|axis| axis.name.clone()).collect();
    // A region has one part for each name.
    let names =
        names.filter(|all| all.iter().enumerate().all(|(at, name)| !all.iter().take(at).any(|n| n == name)));
    // The groups above the root are not served.
    let above = if place.inside.is_empty() { None } else { group(array) };
    let (source, variables, region) = match names.zip(above) {
        Some((names, (group, name))) => {
            // The variable may have another name than its dataset.
            let own = place.inside.rsplit('/').next().filter(|own| !own.is_empty());
            let name = own.map_or(name, str::to_owned);
            (group, Some(vec![name]), Region::Named(names.into_iter().zip(bounds).collect()))
        }
        None => (Node::Array(array.clone()), None, Region::Axes(bounds.collect())),
    };
    let folder = Folder::new()?;
    let path = folder.0.join(format!("{}.{ending}", stem(place)));
    let fits = Fits { ask: asked.ask, room: RefCell::new(Some(room)), bytes: Cell::new(bytes) };
    let options =
        CopyOptions { variables, region: Some(region), progress: Some(&fits), ..CopyOptions::default() };
    let copied = copy(&source, &path.display().to_string(), &options);
    let bytes = fits.bytes.get();
    if bytes > MOST_COPIED {
        return Err(ArrayError::Memory { array: array.name(), what: "a file", bytes }.into());
    }
    copied?;
    let Some(room) = fits.room.take() else { return Err(Error::Interrupted) };
    let file = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (len, file) = file.map_err(failed)?;
    // Nobody needs the name: the open file stays until it was sent.
    drop(folder);
    Ok((media, Source::Stored(Arc::new(Sent(file, room))), len))
}

/// Stops a copy that nobody waits for, or that has no room. Coordinates count, too.
struct Fits<'a> {
    ask: &'a dyn Fn() -> bool,
    room: RefCell<Option<Room>>,
    bytes: Cell<u64>,
}

impl Progress for Fits<'_> {
    fn begin(&self, _: Phase, bytes: u64) {
        self.bytes.set(bytes);
        self.room.take();
        self.room.replace(Some(bytes).filter(|bytes| *bytes <= MOST_COPIED).and_then(Room::take));
    }

    fn cancelled(&self) -> bool {
        self.room.borrow().is_none() || (self.ask)()
    }
}

/// The group that has a variable, and the variable's name in it.
fn group(array: &Array) -> Option<(Node, String)> {
    let path = array.path().trim_matches('/');
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let node = match array.file() {
        Some(file) => file.open(above).ok()?,
        None => open_node(array.store(), above, Some(array.format())).ok()?,
    };
    (matches!(node, Node::Group(_)) && !name.is_empty()).then(|| (node, name.to_owned()))
}

fn failed(error: io::Error) -> Error {
    Error::Location { location: "the directory of temporary files".into(), why: error.to_string() }
}

/// A directory of temporary files, that is deleted when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Relaxed);
            let path = std::env::temp_dir().join(format!("hyperslab-serve-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                // A server that was killed has left it, or somebody else has put something there.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file that is being sent.
struct Sent(File, #[expect(dead_code, reason = "held until the file was sent")] Room);

/// Most bytes of elements in all files that are being made and sent. Slow clients keep them on the disk.
const MOST_KEPT: u64 = 4 << 30;
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Bytes of a file on the disk.
struct Room(u64);

impl Room {
    /// `None`: too many files are being made and sent. Ask again later.
    fn take(bytes: u64) -> Option<Room> {
        let more = |kept: u64| kept.checked_add(bytes).filter(|all| *all <= MOST_KEPT);
        KEPT.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Room(bytes))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.0, Relaxed);
    }
}

impl Readable for Sent {
    fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        self.0.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok(bytes.into())
    }
}
