//! Classic files for tests, byte by byte.

use hyperslab_store::{Key, MemoryStore, Store};
use std::sync::Arc;

/// A header under construction.
pub(crate) struct Classic {
    version: u8,
    records: u64,
    dimensions: Vec<Vec<u8>>,
    attributes: Vec<Vec<u8>>,
    variables: Vec<Vec<u8>>,
}

impl Classic {
    pub(crate) fn new(version: u8) -> Self {
        Classic { version, records: 0, dimensions: vec![], attributes: vec![], variables: vec![] }
    }

    pub(crate) fn records(mut self, records: u64) -> Self {
        self.records = records;
        self
    }

    pub(crate) fn dimension(mut self, name: &str, len: u64) -> Self {
        self.dimensions.push([self.name(name), self.count(len)].concat());
        self
    }

    pub(crate) fn attribute(mut self, name: &str, external: u32, bytes: &[u8]) -> Self {
        self.attributes.push(self.encode_attribute(name, external, bytes));
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
        let ids = dimensions.iter().flat_map(|id| self.count(*id)).collect();
        let head = [self.name(name), self.count(dimensions.len() as u64), ids].concat();
        let encode =
            |(name, external, value): &(&str, u32, &[u8])| self.encode_attribute(name, *external, value);
        let attributes = self.list(12, &attributes.iter().map(encode).collect::<Vec<_>>());
        let vsize = self.count(0xdead_beef);
        let begin = &begin.to_be_bytes()[if self.version == 1 { 4 } else { 0 }..];
        self.variables.push([&head, &attributes, &external.to_be_bytes()[..], &vsize, begin].concat());
        self
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        let head = [vec![b'C', b'D', b'F', self.version], self.count(self.records)].concat();
        let lists = [(10, &self.dimensions), (12, &self.attributes), (11, &self.variables)];
        [head, lists.map(|(tag, items)| self.list(tag, items)).concat()].concat()
    }

    /// The header, and `parts` of data: the position of each part, and its bytes.
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
        count.to_be_bytes()[if self.version == 5 { 0 } else { 4 }..].to_vec()
    }

    fn list(&self, tag: u32, items: &[Vec<u8>]) -> Vec<u8> {
        let tag = if items.is_empty() { 0 } else { tag };
        [&tag.to_be_bytes()[..], &self.count(items.len() as u64), &items.concat()].concat()
    }

    fn name(&self, name: &str) -> Vec<u8> {
        [self.count(name.len() as u64), padded(name.as_bytes())].concat()
    }

    fn encode_attribute(&self, name: &str, external: u32, value: &[u8]) -> Vec<u8> {
        let size = [1, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8][external as usize];
        let count = self.count((value.len() / size) as u64);
        [self.name(name), external.to_be_bytes().to_vec(), count, padded(value)].concat()
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
