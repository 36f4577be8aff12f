//! Iterations, sizes and published test values of the classes (NPB 3, IS parameter file).

use std::fmt;
use std::str::FromStr;

/// Timed iterations.
pub const ITERATIONS: u32 = 10;
/// Untimed iterations before them.
pub const BEFORE: u32 = 1;
/// Keys whose ranks are published.
pub const TESTS: usize = 5;

/// A size of the problem, named as in the NAS Parallel Benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// 2^16 keys below 2^11: a sample.
    S,
    /// 2^20 keys below 2^16: for a workstation.
    W,
    /// 2^23 keys below 2^19.
    A,
    /// 2^25 keys below 2^21.
    B,
    /// 2^27 keys below 2^23.
    C,
}

/// A key whose rank is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Its place in the sequence of keys.
    pub index: u64,
    /// Its rank in iteration `origin`; iteration 0 is before any key is modified.
    rank: i64,
    /// Change of its rank per iteration: 1 or -1.
    sign: i64,
    /// The iteration in which it has that rank.
    origin: i64,
}

impl Test {
    /// Number of keys smaller than this one in an iteration, 1 to 10: the keys modified in each
    /// iteration shift it by one.
    pub const fn rank_in(&self, iteration: u32) -> i64 {
        self.rank + self.sign * (iteration as i64 - self.origin)
    }
}

impl Class {
    /// All classes, in ascending order.
    pub const ALL: [Class; 5] = [Class::S, Class::W, Class::A, Class::B, Class::C];

    /// Number of keys.
    pub const fn keys(self) -> u64 {
        1 << match self {
            Self::S => 16,
            Self::W => 20,
            Self::A => 23,
            Self::B => 25,
            Self::C => 27,
        }
    }

    /// Keys are below 2 to this power.
    pub const fn key_bits(self) -> u32 {
        match self {
            Self::S => 11,
            Self::W => 16,
            Self::A => 19,
            Self::B => 21,
            Self::C => 23,
        }
    }

    /// log2 of the number of buckets.
    const fn bucket_bits(self) -> u32 {
        match self {
            Self::S => 9,
            _ => 10,
        }
    }

    /// Number of buckets, and thus the most ranks: no bucket is split.
    pub const fn buckets(self) -> u32 {
        1 << self.bucket_bits()
    }

    /// A key's bucket is the key shifted right by this many bits.
    pub const fn shift(self) -> u32 {
        self.key_bits() - self.bucket_bits()
    }

    /// The keys whose ranks are published.
    pub fn tests(self) -> [Test; TESTS] {
        let (indices, ranks, rising, origins) = match self {
            Self::S => (
                [48_427, 17_148, 23_627, 62_548, 4_431],
                [0, 18, 346, 64_917, 65_463],
                [true, true, true, false, false],
                [0; TESTS],
            ),
            Self::W => (
                [357_773, 934_767, 875_723, 898_999, 404_505],
                [1_249, 11_698, 1_039_987, 1_043_896, 1_048_018],
                [true, true, false, false, false],
                [2, 2, 0, 0, 0],
            ),
            Self::A => (
                [2_112_377, 662_041, 5_336_171, 3_642_833, 4_250_760],
                [104, 17_523, 123_928, 8_288_932, 8_388_264],
                [true, true, true, false, false],
                [1; TESTS],
            ),
            Self::B => (
                [41_869, 812_306, 5_102_857, 18_232_239, 26_860_214],
                [33_422_937, 10_244, 59_149, 33_135_281, 99],
                [false, true, true, false, true],
                [0; TESTS],
            ),
            Self::C => (
                [44_172_927, 72_999_161, 74_326_391, 129_606_274, 21_736_814],
                [61_147, 882_988, 266_290, 133_997_595, 133_525_895],
                [true, true, true, false, false],
                [0; TESTS],
            ),
        };
        std::array::from_fn(|i| Test {
            index: indices[i],
            rank: ranks[i],
            sign: if rising[i] { 1 } else { -1 },
            origin: origins[i],
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::S => "S",
            Self::W => "W",
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        })
    }
}

/// A text that names no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read a class: {0:?} is not one of S, W, A, B, C")]
pub struct ParseClassError(String);

impl FromStr for Class {
    type Err = ParseClassError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |class: &Class| text.eq_ignore_ascii_case(&class.to_string());
        let found = Self::ALL.into_iter().find(named);
        found.ok_or_else(|| ParseClassError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_specification() {
        let sizes = |c: Class| (c.keys(), 1_u64 << c.key_bits(), c.buckets());
        assert_eq!(sizes(Class::S), (65_536, 2_048, 512));
        assert_eq!(sizes(Class::W), (1_048_576, 65_536, 1_024));
        assert_eq!(sizes(Class::A), (8_388_608, 524_288, 1_024));
        assert_eq!(sizes(Class::B), (33_554_432, 2_097_152, 1_024));
        assert_eq!(sizes(Class::C), (134_217_728, 8_388_608, 1_024));
        for class in Class::ALL {
            assert!(class.tests().iter().all(|t| t.index < class.keys()));
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert!("D".parse::<Class>().is_err());
    }

    #[test]
    fn test_ranks_move_by_one_in_every_iteration() {
        let [first, .., last] = Class::S.tests();
        assert_eq!((first.rank_in(1), first.rank_in(10)), (1, 10));
        assert_eq!((last.rank_in(1), last.rank_in(10)), (65_462, 65_453));
        let [first, _, third, ..] = Class::W.tests();
        assert_eq!((first.rank_in(1), first.rank_in(3)), (1_248, 1_250));
        assert_eq!(third.rank_in(1), 1_039_986);
        let [first, .., last] = Class::A.tests();
        assert_eq!((first.rank_in(1), first.rank_in(2)), (104, 105));
        assert_eq!((last.rank_in(1), last.rank_in(2)), (8_388_264, 8_388_263));
        let [first, .., last] = Class::B.tests();
        assert_eq!((first.rank_in(1), last.rank_in(1)), (33_422_936, 100));
    }
}
