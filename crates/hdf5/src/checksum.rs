//! The checksum of metadata: Bob Jenkins' lookup3 (`hashlittle`), which is also the hash of names
//! in B-trees of links and attributes.

pub fn lookup3(bytes: &[u8]) -> u32 {
    hyperslab_codec::lookup3(bytes, 0)
}
