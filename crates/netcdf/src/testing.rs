//! Classic files for tests, byte by byte.

use hyperslab_store::{Key, MemoryStore, Store};
use std::sync::Arc;

/// A header under construction.
pub(crate) struct Classic {
    version: u8,
    records: u64,
    dimensions: (u64, Vec<u8>),
    attributes: (u64, Vec<u8>),
    variables: (u64, Vec<u8>),
}

impl Classic {
    pub(crate) fn new(version: u8) -> Self {
        let (dimensions, attributes, variables) = Default::default();
        Classic { version, records: 0, dimensions, attributes, variables }
    }

    pub(crate) fn records(mut self, records: u64) -> Self {
        self.records = records;
        self
    }

    pub(crate) fn dimension(mut self, name: &str, len: u64) -> Self {
        let mut bytes = self.name(name);
        bytes.extend(self.count(len));
        self.dimensions.0 += 1;
        self.dimensions.1.extend(bytes);
        self
    }

    pub(crate) fn attribute(mut self, name: &str, external: u32, bytes: &[u8]) -> Self {
        let bytes = self.encode_attribute(name, external, bytes);
        self.attributes.0 += 1;
        self.attributes.1.extend(bytes);
        self
    }

    pub(crate) fn variable(
        mut self,
        name: &str,
        dimensions: &[u64],
        external: u32,
        attributes: &[(&str, u32, &[u8])],
        begin: u64,
    ) -> Self {
        let mut bytes = self.name(name);
        bytes.extend(self.count(dimensions.len() as u64));
        for id in dimensions {
            bytes.extend(self.count(*id));
        }
        let mut list = (0, Vec::new());
        for (name, external, value) in attributes {
            list.0 += 1;
            list.1.extend(self.encode_attribute(name, *external, value));
        }
        bytes.extend(self.list(12, &list));
        bytes.extend(external.to_be_bytes());
        bytes.extend(self.count(0xdead_beef)); // vsize
        match self.version {
            1 => bytes.extend((begin as u32).to_be_bytes()),
            _ => bytes.extend(begin.to_be_bytes()),
        }
        self.variables.0 += 1;
        self.variables.1.extend(bytes);
        self
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        let mut bytes = vec![b'C', b'D', b'F', self.version];
        bytes.extend(self.count(self.records));
        bytes.extend(self.list(10, &self.dimensions));
        bytes.extend(self.list(12, &self.attributes));
        bytes.extend(self.list(11, &self.variables));
        bytes
    }

    /// The header, and `parts` of data: where each begins, and its bytes.
    pub(crate) fn file(&self, parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = self.header();
        for (begin, part) in parts {
            assert!(*begin >= self.header().len(), "the header has {} bytes", self.header().len());
            bytes.resize(bytes.len().max(begin + part.len()), 0);
            bytes[*begin..begin + part.len()].copy_from_slice(part);
        }
        bytes
    }

    fn count(&self, count: u64) -> Vec<u8> {
        if self.version == 5 { count.to_be_bytes().to_vec() } else { (count as u32).to_be_bytes().to_vec() }
    }

    fn list(&self, tag: u32, (count, items): &(u64, Vec<u8>)) -> Vec<u8> {
        let tag = if *count == 0 { 0 } else { tag };
        [&tag.to_be_bytes()[..], &self.count(*count), items].concat()
    }

    fn name(&self, name: &str) -> Vec<u8> {
        let mut bytes = self.count(name.len() as u64);
        bytes.extend(padded(name.as_bytes()));
        bytes
    }

    fn encode_attribute(&self, name: &str, external: u32, value: &[u8]) -> Vec<u8> {
        let size = [1, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8][external as usize];
        let mut bytes = self.name(name);
        bytes.extend(external.to_be_bytes());
        bytes.extend(self.count((value.len() / size) as u64));
        bytes.extend(padded(value));
        bytes
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A store that holds one file, `f.nc`.
pub(crate) fn store(bytes: &[u8]) -> Arc<dyn Store> {
    let store = MemoryStore::new();
    store.write(Key::new("f.nc").unwrap(), &[bytes]).unwrap();
    Arc::new(store)
}
