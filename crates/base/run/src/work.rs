//! The work that a measurement repeats.

use idlewave_units::Bytes;
use serde::{Deserialize, Serialize};

/// What a step of work does. Each loads another part of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKernel {
    /// An addition that needs the one before: the clock rate alone.
    #[default]
    Fibonacci,
    /// A multiplication, a shift and an exclusive or that need those before.
    Integer,
    /// Fused multiply-adds in independent chains: the floating-point units.
    Fma,
    /// An element of a triad through arrays that are larger than the caches: the memory.
    Stream,
}

impl WorkKernel {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fibonacci, Self::Integer, Self::Fma, Self::Stream];

    /// Its name, as in the option.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fibonacci => "fibonacci",
            Self::Integer => "integer",
            Self::Fma => "fma",
            Self::Stream => "stream",
        }
    }

    /// The options that choose it, with a leading space; none for the usual one. `array`: the size of
    /// the arrays.
    pub fn options(self, array: Option<Bytes>) -> String {
        let size = |bytes: Bytes| format!(" --array {}", bytes.exact_text().replace(' ', ""));
        match self {
            Self::Fibonacci => String::new(),
            _ => format!(
                " --kernel {}{}",
                self.name(),
                array.map(size).unwrap_or_default()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_repeat_the_work_and_the_usual_needs_none() {
        let size = Some(Bytes::from_kib(128 << 10));
        assert_eq!(WorkKernel::Fibonacci.options(None), "");
        assert_eq!(WorkKernel::Fma.options(None), " --kernel fma");
        assert_eq!(
            WorkKernel::Stream.options(size),
            " --kernel stream --array 128MiB"
        );
        for kernel in WorkKernel::ALL {
            let written = serde_json::to_string(&kernel).expect("a name");
            assert_eq!(written, format!("\"{}\"", kernel.name()));
        }
    }
}
