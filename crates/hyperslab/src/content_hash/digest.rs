//! Digests, and the tree over the slabs of an array.

use std::fmt;
use std::str::FromStr;

/// Bytes of a digest.
pub(super) const SIZE: usize = 32;

/// A BLAKE3 digest of 256 bits. Its text is hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub(super) [u8; SIZE]);

impl Digest {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; SIZE] {
        &self.0
    }

    /// The digest of a node of the tree.
    fn join(left: Digest, right: Digest) -> Digest {
        Digest::of([left.0, right.0].as_flattened())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected {} hexadecimal digits, found {text:?}", 2 * SIZE);
        let mut digest = [0; SIZE];
        if text.len() != 2 * SIZE || !text.is_ascii() {
            return Err(wrong());
        }
        for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
            let pair = text.get(at..at + 2).filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(wrong)?;
        }
        Ok(Digest(digest))
    }
}

/// A binary tree over digests that grows at its end, as in RFC 6962 but without its prefixes.
///
/// The root of one leaf is the leaf. The root of `n` leaves joins the roots of the first `k` leaves
/// and of the others; `k` is the largest power of two below `n`. A tree is known by the roots of
/// its complete parts, one for each bit of `n`, so it can grow when its leaves are forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    count: u64,
    peaks: Vec<Digest>,
}

impl Tree {
    /// A tree of `count` leaves, with the roots of its complete parts, the largest first.
    /// `None`: there is no such tree.
    pub fn of(count: u64, peaks: Vec<Digest>) -> Option<Tree> {
        (count.count_ones() as usize == peaks.len()).then_some(Tree { count, peaks })
    }

    /// The number of leaves.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The roots of the complete parts, the largest first.
    pub fn peaks(&self) -> &[Digest] {
        &self.peaks
    }

    /// Appends a leaf.
    pub fn push(&mut self, leaf: Digest) {
        let mut root = leaf;
        // Each one bit at the end of `count` is a part that is as large as `root`.
        for _ in 0..self.count.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                root = Digest::join(left, root);
            }
        }
        self.peaks.push(root);
        self.count += 1;
    }

    /// The root. Without leaves it is the digest of no bytes.
    pub fn root(&self) -> Digest {
        let mut parts = self.peaks.iter().rev().copied();
        let Some(last) = parts.next() else { return Digest::of(b"") };
        parts.fold(last, |right, left| Digest::join(left, right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, as a recursion.
    fn root(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::of(b""),
            [one] => *one,
            _ => {
                let half = leaves.len().next_power_of_two() / 2;
                let (left, right) = leaves.split_at(half);
                Digest::join(root(left), root(right))
            }
        }
    }

    #[test]
    fn trees_grow_at_their_end() {
        let leaves: Vec<Digest> = (0..40u8).map(|n| Digest::of(&[n])).collect();
        let mut tree = Tree::default();
        for n in 0..leaves.len() {
            assert_eq!((tree.count(), tree.root()), (n as u64, root(&leaves[..n])));
            let mut again = Tree::of(tree.count(), tree.peaks().to_vec()).unwrap();
            again.push(leaves[n]);
            tree.push(leaves[n]);
            assert_eq!(again, tree);
        }
        assert_eq!(Tree::of(3, vec![leaves[0]]), None);
    }

    #[test]
    fn digests_are_text() {
        // From the test vectors of BLAKE3: the digest of no bytes.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
        for wrong in ["", "af", &empty[1..], &empty.replace("af", "+f"), &empty.replace("af", "é")] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
