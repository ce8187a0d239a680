//! What tells whether an object has changed.

/// Which contents an object had when the stamp was taken.
///
/// A stamp that came with bytes ([`Store::read_all_stamped`](crate::Store::read_all_stamped)) is a
/// promise: whatever object of whatever store of this process has an equal stamp later
/// ([`Store::stamp`](crate::Store::stamp)) holds the same bytes then. So bytes kept under it may be
/// used again, under whichever key they are asked for. Two stamps that did not come with bytes
/// promise nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp([u64; 7]);

impl Stamp {
    /// A stamp of these numbers. For files the first is the number of the device; other stores put
    /// there something that no device and no other store has, [`Stamp::NO_DEVICE`] for counted
    /// versions. The first five must tell other contents of one object apart.
    pub fn new(numbers: [u64; 7]) -> Self {
        Stamp(numbers)
    }

    /// Numbers that tell other contents of one object apart, and are the same on every machine that
    /// reaches the object: a network file system has another number of the device on each.
    pub fn everywhere(&self) -> [u64; 4] {
        let [_, a, b, c, d, ..] = self.0;
        [a, b, c, d]
    }

    /// Whether the contents were written by the same write, as far as the first five numbers tell.
    /// Those of a file without a time of change: it also changes when the file loses its name, so
    /// that a reader who holds it open would take it for another.
    pub(crate) fn same_write(&self, other: &Stamp) -> bool {
        self.0.iter().take(5).eq(other.0.iter().take(5))
    }

    /// A stamp of 256 bits that depend on which object of which store it is, and on which contents
    /// the store says that it has.
    pub fn hashed(hash: [u64; 4]) -> Self {
        let [a, b, c, d] = hash;
        Stamp([Stamp::HASHED, a, b, c, d, 0, 0])
    }

    /// The stamp of a range of these contents.
    pub fn part(self, offset: u64, len: u64) -> Self {
        let [device, a, b, c, d, e, f] = self.0;
        // No whole object has such a device. Odd factors: other ranges have other numbers.
        let of = offset.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let long = len.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
        let (e, f) = (e.wrapping_add(of), f.wrapping_add(long).wrapping_add(of.rotate_left(32)));
        Stamp([device.wrapping_sub(1 << 62), a, b, c, d, e, f])
    }

    /// The first number of stamps that count versions; the second is the count. No device has this
    /// number.
    pub const NO_DEVICE: u64 = u64::MAX;

    /// The first number of stamps of members of archives. No device has this number.
    pub(crate) const IN_ARCHIVE: u64 = u64::MAX - 1;

    /// The first number of hashed stamps. No device has this number.
    const HASHED: u64 = u64::MAX - 2;
}

/// Whether there is an object, and the stamp under which the bytes that were read may be kept.
pub type Stamped = (bool, Option<Stamp>);
