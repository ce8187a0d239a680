//! The checksum of metadata: Bob Jenkins' lookup3 (`hashlittle`).
//!
//! B-trees of links and attributes use it as the hash of names, too.

pub fn lookup3(bytes: &[u8]) -> u32 {
    hyperslab_codec::lookup3(bytes, 0)
}
