//! Stamps, which show whether an object has changed.

/// Identifies the contents of an object at one time.
///
/// A stamp that came with bytes ([`Store::read_all_stamped`](crate::Store::read_all_stamped)) is a
/// promise: any object of any store in this process that later has an equal stamp
/// ([`Store::stamp`](crate::Store::stamp)) has the same bytes then. Bytes kept under the stamp may
/// therefore be reused, under whatever key they are requested. Two stamps that did not come with
/// bytes promise nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp([u64; 7]);

impl Stamp {
    /// Creates a stamp from these numbers.
    ///
    /// For files, the first number is the device. Other stores use a first number that no device
    /// and no other store has, such as [`Stamp::NO_DEVICE`] for counted versions. The first five
    /// numbers must distinguish different contents of one object.
    pub fn new(numbers: [u64; 7]) -> Self {
        Stamp(numbers)
    }

    /// Numbers that distinguish contents of one object and are equal on every machine.
    ///
    /// Without the device number, which differs between machines on a network file system.
    pub fn everywhere(&self) -> SharedStamp {
        let [_, a, b, c, d, ..] = self.0;
        [a, b, c, d]
    }

    /// Returns whether one write wrote both contents, as far as the first five numbers tell.
    ///
    /// For files, these exclude the change time: it also changes when the file is unlinked, and a
    /// reader that still holds the file open would take it for another one.
    pub(crate) fn same_write(&self, other: &Stamp) -> bool {
        self.0.iter().take(5).eq(other.0.iter().take(5))
    }

    /// A stamp from a 256-bit hash of the store, the object and the version of its contents, and
    /// from more numbers of the version.
    ///
    /// Only the hash counts in [`Stamp::everywhere`].
    pub fn hashed(hash: SharedStamp, more: [u64; 2]) -> Self {
        let ([a, b, c, d], [e, f]) = (hash, more);
        Stamp([Stamp::HASHED, a, b, c, d, e, f])
    }

    /// The stamp of a range of these contents.
    pub fn part(self, offset: u64, len: u64) -> Self {
        let [device, a, b, c, d, e, f] = self.0;
        // No whole object has such a device. The factors are odd, so different ranges get different
        // numbers.
        let of = offset.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let long = len.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
        let (e, f) = (e.wrapping_add(of), f.wrapping_add(long).wrapping_add(of.rotate_left(32)));
        Stamp([device.wrapping_sub(1 << 62), a, b, c, d, e, f])
    }

    /// First number of stamps that count versions; the second is the count. No device has this
    /// number.
    pub const NO_DEVICE: u64 = u64::MAX;

    /// First number of stamps of archive members. No device has this number.
    pub(crate) const IN_ARCHIVE: u64 = u64::MAX - 1;

    /// First number of hashed stamps. No device has this number.
    const HASHED: u64 = u64::MAX - 2;
}

/// The numbers of a stamp that are equal on every machine ([`Stamp::everywhere`]).
pub type SharedStamp = [u64; 4];

/// The existence of the object, and the stamp under which the bytes read may be kept.
pub type Stamped = (bool, Option<Stamp>);
