//! Numbers of any size at any bit.

/// The integer of `size` bits (1..=64) at bit `at`, which must lie within the bytes. Little-endian
/// numbers begin at the lowest bit of a byte, big-endian ones at the highest.
#[inline]
pub(crate) fn read(bytes: &[u8], at: u64, size: u32, big: bool) -> u64 {
    let (first, shift) = ((at >> 3) as usize, (at & 7) as u32);
    if shift == 0 {
        let rest = &bytes[first..];
        match (size, big) {
            (32, false) => return u64::from(u32::from_le_bytes(chunk(rest))),
            (64, false) => return u64::from_le_bytes(chunk(rest)),
            (16, false) => return u64::from(u16::from_le_bytes(chunk(rest))),
            (8, _) => return u64::from(rest[0]),
            _ => {}
        }
    }
    odd(&bytes[first..], shift, size, big)
}

fn odd(bytes: &[u8], shift: u32, size: u32, big: bool) -> u64 {
    let count = (shift + size).div_ceil(8);
    let bytes = bytes[..count as usize].iter();
    let add = |all: u128, byte: &u8| all << 8 | u128::from(*byte);
    let value = match big {
        false => bytes.rev().fold(0, add) >> shift,
        true => bytes.fold(0, add) >> (count * 8 - shift - size),
    };
    (value & ((1 << size) - 1)) as u64
}

#[inline]
fn chunk<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut chunk = [0; N];
    chunk.copy_from_slice(&bytes[..N]);
    chunk
}

/// Sign-extends a number of `size` bits to 64 bits.
#[inline]
pub(crate) fn with_sign(value: u64, size: u32) -> u64 {
    let unused = 64 - size;
    (((value << unused) as i64) >> unused) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_stand_where_c_puts_bit_fields() {
        // struct { unsigned a : 5, b : 27; } as GCC lays it out for x86: a = 3, b = 0x1234567.
        let bytes = (3 | 0x123_4567_u32 << 5).to_le_bytes();
        assert_eq!(read(&bytes, 0, 5, false), 3);
        assert_eq!(read(&bytes, 5, 27, false), 0x123_4567);
        // The same for a big-endian machine.
        let bytes = (3 << 27 | 0x123_4567_u32).to_be_bytes();
        assert_eq!(read(&bytes, 0, 5, true), 3);
        assert_eq!(read(&bytes, 5, 27, true), 0x123_4567);
        assert_eq!(with_sign(0b10110, 5), (-10_i64) as u64);
        assert_eq!(with_sign(0b00110, 5), 6);
        assert_eq!(with_sign(u64::MAX, 64), u64::MAX);
    }

    proptest! {
        #[test]
        fn every_bit_is_read_from_its_place(
            bytes in proptest::collection::vec(any::<u8>(), 20),
            at in 0_u64..80,
            size in 1_u32..=64,
        ) {
            for big in [false, true] {
                let bit = |n: u64| {
                    let byte = u64::from(bytes[(n / 8) as usize]);
                    match big {
                        true => byte >> (7 - n % 8) & 1,
                        false => byte >> (n % 8) & 1,
                    }
                };
                let places = at..at + u64::from(size);
                let expected = match big {
                    true => places.fold(0, |all, n| all << 1 | bit(n)),
                    false => places.rev().fold(0, |all, n| all << 1 | bit(n)),
                };
                prop_assert_eq!(read(&bytes, at, size, big), expected);
            }
        }
    }
}
