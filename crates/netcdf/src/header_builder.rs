//! A header as bytes: the mirror of [`Header::parse`].

use crate::header::{ATTRIBUTE, DIMENSION, Declared, Header, VARIABLE};
use crate::{Attribute, Dimension, Version};

/// The size that stands in the header for a variable of more than 4 GiB.
const TOO_LARGE: u64 = u32::MAX as u64;

/// Bytes under construction.
struct Builder {
    bytes: Vec<u8>,
    version: Version,
}

impl Header {
    /// Builds the bytes that [`Header::parse`] parses.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut builder = Builder { bytes: b"CDF".to_vec(), version: self.version };
        builder.bytes.push(match self.version {
            Version::Classic => 1,
            Version::Offset64 => 2,
            Version::Data64 => 5,
        });
        builder.count(self.records.unwrap_or(u64::MAX));
        builder.list(DIMENSION, &self.dimensions, |builder, dimension: &Dimension| {
            builder.name(&dimension.name);
            builder.count(dimension.len);
        });
        builder.attributes(&self.attributes);
        builder.list(VARIABLE, &self.variables, |builder, variable: &Declared| {
            builder.name(&variable.name);
            builder.count(variable.dimensions.len() as u64);
            for id in &variable.dimensions {
                builder.count(*id as u64);
            }
            builder.attributes(&variable.attributes);
            builder.u32(variable.external.number());
            builder.count(self.padded_size(variable));
            let begin = variable.begin.to_be_bytes();
            let width = if self.version == Version::Classic { 4 } else { 8 };
            builder.bytes.extend(begin.iter().skip(8 - width));
        });
        builder.bytes
    }

    /// The `vsize` of a variable: bytes of all elements, or of one record, rounded up to four bytes.
    fn padded_size(&self, variable: &Declared) -> u64 {
        let lens = variable.dimensions.iter().filter_map(|id| self.dimensions.get(*id));
        let fixed = lens.filter(|dimension| !dimension.unlimited).map(|dimension| dimension.len);
        let size = variable.external.dtype().size() as u64;
        let bytes = fixed.fold(size, u64::saturating_mul);
        let padded = bytes.checked_next_multiple_of(4).unwrap_or(u64::MAX);
        if self.version == Version::Data64 { padded } else { padded.min(TOO_LARGE) }
    }
}

impl Builder {
    fn u32(&mut self, number: u32) {
        self.bytes.extend(number.to_be_bytes());
    }

    /// A number as wide as this format's counts.
    fn count(&mut self, count: u64) {
        let width = if self.version == Version::Data64 { 8 } else { 4 };
        self.bytes.extend(count.to_be_bytes().iter().skip(8 - width));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn name(&mut self, name: &str) {
        self.count(name.len() as u64);
        self.padded(name.as_bytes());
    }

    fn list<T>(&mut self, tag: u32, items: &[T], item: impl Fn(&mut Builder, &T)) {
        self.u32(if items.is_empty() { 0 } else { tag });
        self.count(items.len() as u64);
        for each in items {
            item(self, each);
        }
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        self.list(ATTRIBUTE, attributes, |builder, attribute| {
            builder.name(&attribute.name);
            builder.u32(attribute.external.number());
            builder.count((attribute.bytes.len() / attribute.external.dtype().size().max(1)) as u64);
            builder.padded(&attribute.bytes);
        });
    }
}
