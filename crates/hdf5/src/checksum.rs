//! The checksum of metadata: Bob Jenkins' lookup3 (`hashlittle`), which is also the hash of names
//! in B-trees of links and attributes.

pub fn lookup3(bytes: &[u8]) -> u32 {
    // The length counts modulo 2³².
    let len = u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or_default();
    let mut state = [0xdead_beef_u32.wrapping_add(len); 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, later) = rest.split_at(12);
        state = mix(add(state, block));
        rest = later;
    }
    if rest.is_empty() { state[2] } else { last(add(state, rest))[2] }
}

/// Adds up to 12 bytes; those that are not there count as zero.
fn add([a, b, c]: [u32; 3], block: &[u8]) -> [u32; 3] {
    let mut padded = [0; 12];
    for (to, from) in padded.iter_mut().zip(block) {
        *to = *from;
    }
    let [p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11] = padded;
    [
        a.wrapping_add(u32::from_le_bytes([p0, p1, p2, p3])),
        b.wrapping_add(u32::from_le_bytes([p4, p5, p6, p7])),
        c.wrapping_add(u32::from_le_bytes([p8, p9, p10, p11])),
    ]
}

fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    let step = |x: &mut u32, y: u32, turn: u32| *x = x.wrapping_sub(y) ^ y.rotate_left(turn);
    for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
        step(&mut a, c, first);
        c = c.wrapping_add(b);
        step(&mut b, a, second);
        a = a.wrapping_add(c);
        step(&mut c, b, third);
        b = b.wrapping_add(a);
    }
    [a, b, c]
}

fn last([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    let step = |x: &mut u32, y: u32, turn: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(turn));
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    [a, b, c]
}

#[cfg(test)]
mod tests {
    use super::lookup3;

    /// The values that Jenkins' own `driver5` prints for an initial value of 0.
    #[test]
    fn published_values() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
