//! CPUs on which the calling thread may run.

use super::CaptureError;
use idlewave_sys::affinity;
use idlewave_units::CpuSet;

/// CPUs on which the calling thread may run: its affinity mask without offline CPUs and those
/// outside its cpuset. Works for any number of CPUs.
///
/// Errors: the system call fails, or the mask is empty.
pub fn allowed_cpus() -> Result<CpuSet, CaptureError> {
    not_empty(affinity::allowed().map_err(CaptureError::Affinity)?)
}

fn not_empty(cpus: CpuSet) -> Result<CpuSet, CaptureError> {
    if cpus.is_empty() {
        Err(CaptureError::NoCpus)
    } else {
        Ok(cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_mask_is_an_error() {
        assert!(matches!(
            not_empty(CpuSet::new()),
            Err(CaptureError::NoCpus)
        ));
    }
}
