//! The interface through which the engines request CPU time.

/// CPU time of ranks: when does work that starts now finish?
pub trait CpuTime {
    /// The time at which `work_ns` of CPU work started at `start_ns` finishes, both in nanoseconds
    /// from the start of the simulation.
    ///
    /// For one CPU of one rank, `start_ns` is never before an end returned earlier. Work of length
    /// 0 finishes immediately.
    fn end(&mut self, rank: u32, cpu: u8, start_ns: u64, work_ns: u64) -> u64;
}

/// No noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quiet;

impl CpuTime for Quiet {
    #[inline(always)]
    fn end(&mut self, _rank: u32, _cpu: u8, start_ns: u64, work_ns: u64) -> u64 {
        start_ns.saturating_add(work_ns)
    }
}
