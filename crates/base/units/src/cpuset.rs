//! Sets of CPUs in the kernel's list notation.

use crate::Cpu;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A set of CPUs; prints and parses as the kernel writes it: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<Cpu>);

/// The largest CPU number accepted: eight times what the kernel can be built for (`NR_CPUS` 8192).
const MAX_CPU: u32 = 65_535;

/// Why a list of CPUs could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseCpuSetError {
    /// A part is neither a number nor a range.
    #[error("`{0}` is not a CPU or a range of CPUs; write a list as in `0-3,8`")]
    Part(String),
    /// A range that runs backwards.
    #[error("range `{0}` runs backwards")]
    Backwards(String),
    /// A number beyond that of any machine.
    #[error("CPU {0} is beyond the largest number accepted (65535)")]
    TooLarge(u64),
}

impl CpuSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a CPU.
    pub fn insert(&mut self, cpu: Cpu) {
        self.0.insert(cpu);
    }
    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: Cpu) -> bool {
        self.0.contains(&cpu)
    }
    /// How many CPUs there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// In rising order.
    pub fn iter(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.0.iter().copied()
    }
    /// The CPUs of this set that are not in `other`.
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.difference(&other.0).copied().collect())
    }
}

impl FromIterator<Cpu> for CpuSet {
    fn from_iter<I: IntoIterator<Item = Cpu>>(iter: I) -> Self {
        CpuSet(iter.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut set = BTreeSet::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let number = |s: &str| {
                let n: u64 = s
                    .trim()
                    .parse()
                    .map_err(|_| ParseCpuSetError::Part(part.to_owned()))?;
                match u32::try_from(n) {
                    Ok(cpu) if cpu <= MAX_CPU => Ok(cpu),
                    _ => Err(ParseCpuSetError::TooLarge(n)),
                }
            };
            let (first, last) = match part.split_once('-') {
                Some((a, b)) => (number(a)?, number(b)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(ParseCpuSetError::Backwards(part.to_owned()));
            }
            set.extend((first..=last).map(Cpu::new));
        }
        Ok(CpuSet(set))
    }
}

impl TryFrom<String> for CpuSet {
    type Error = ParseCpuSetError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        set.to_string()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter().map(Cpu::get) {
            match parts.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => parts.push((cpu, cpu)),
            }
        }
        let text: Vec<String> = parts
            .into_iter()
            .map(|(a, b)| {
                if a == b {
                    a.to_string()
                } else {
                    format!("{a}-{b}")
                }
            })
            .collect();
        f.pad(&text.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernels_list_notation_is_read_and_written() {
        let set: CpuSet = "8, 0-3\n".parse().unwrap();
        assert_eq!(set.to_string(), "0-3,8");
        assert_eq!(set.len(), 5);
        assert_eq!("".parse::<CpuSet>().unwrap().to_string(), "");
    }

    #[test]
    fn wrong_lists_say_what_is_wrong() {
        assert_eq!(
            "3-1".parse::<CpuSet>(),
            Err(ParseCpuSetError::Backwards("3-1".into()))
        );
        assert_eq!(
            "a".parse::<CpuSet>(),
            Err(ParseCpuSetError::Part("a".into()))
        );
        assert_eq!(
            "0-99999999999".parse::<CpuSet>(),
            Err(ParseCpuSetError::TooLarge(99_999_999_999))
        );
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(cpus in proptest::collection::btree_set(0u32..300, 0..40)) {
            let set: CpuSet = cpus.into_iter().map(Cpu::new).collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }
    }
}
