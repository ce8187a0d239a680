//! Looks at arrays: values as text, CSV and `.npy`, pictures, and headers of files as CDL.
//!
//! 1. A [`Window`] says which elements to look at: a range and a step per axis ([`Window::parse`]
//!    reads text such as `0, ::2` or `time=0`).
//! 2. A [`Reader`] reads them as [`Cells`]: values as [`crate::meaning`] defines them.
//! 3. Writers show cells: [`print()`] as NumPy prints them, [`write_csv`], [`write_npy`], [`Picture`], and
//!    [`write_cdl`].
//!
//! Viewers get the same values as JSON and plain numbers: a [`Description`] of an array, a [`Plane`] of two
//! axes, [`Coordinates`] of an axis, a [`Histogram`], a [`Table`].
//!
//! Large arrays are not read as a whole: [`print()`] reads their edges, and a picture reads one element
//! for each pixel.

mod cdl;
mod cdl_attributes;
mod cdl_data;
mod cdl_words;
mod cells;
mod colors;
mod csv;
mod description;
mod histogram;
mod labels;
mod names;
mod npy;
mod numbers;
mod numpy;
mod numpy_float;
mod picture;
mod plane;
pub(crate) mod png;
mod table;
mod thin;
mod window;

pub use cdl::{CdlOptions, write_cdl};
pub use cells::{Cell, Cells, Reader};
pub(crate) use colors::{BLUE_RED, VIRIDIS, color_of};
pub use colors::{Color, ColorMap};
pub use csv::write_csv;
pub use description::{Description, ElementsKind};
pub use histogram::{Histogram, HistogramOptions};
pub use labels::{Coordinates, to_json};
pub use names::chunk_names;
pub use npy::{npy_header, write_npy};
pub use numbers::{NumberReader, Part};
pub use numpy::print;
pub use picture::{Picture, PictureOptions};
pub use plane::{Plane, PlaneOptions};
pub use png::encode_png;
pub use table::Table;
pub use thin::{Coarseness, thin};
pub use window::{Window, WindowAxis};
