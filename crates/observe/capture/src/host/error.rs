//! Errors in examining this machine.

/// Why the machine could not be examined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// sched_getaffinity failed.
    #[error("read the CPU affinity of this process: {0}")]
    Affinity(#[source] std::io::Error),
    /// The affinity mask has no CPU, so nothing can be bound or measured.
    #[error("read the CPU affinity of this process: the set of allowed CPUs is empty")]
    NoCpus,
}
