//! How the engines ask for CPU time.

/// CPU time of ranks: when is work done that begins now?
pub trait CpuTime {
    /// The moment at which `work_ns` of CPU work begun at `start_ns` is done, both in nanoseconds from the start of all.
    ///
    /// For one CPU of one rank `start_ns` never is before an end that was returned. Work of no length is done at once.
    fn end(&mut self, rank: u32, cpu: u8, start_ns: u64, work_ns: u64) -> u64;
}

/// Nothing disturbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quiet;

impl CpuTime for Quiet {
    #[inline(always)]
    fn end(&mut self, _rank: u32, _cpu: u8, start_ns: u64, work_ns: u64) -> u64 {
        start_ns.saturating_add(work_ns)
    }
}
