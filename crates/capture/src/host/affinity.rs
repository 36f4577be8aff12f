//! CPUs on which the calling thread may run.

use super::CaptureError;
use idlewave_units::{Cpu, CpuSet};

/// Words of the first try: 1,024 CPUs, as glibc's `cpu_set_t`.
const FIRST_WORDS: usize = 1024 / 64;
/// Words beyond which no kernel is built (`NR_CPUS` ends at 8,192 on x86; this is 1,048,576 CPUs).
const MAX_WORDS: usize = (1 << 20) / 64;

/// CPUs on which the calling thread may run: its affinity mask less CPUs that are offline or
/// outside its cpuset. Any number of CPUs.
///
/// Errors: the system call fails, or the mask is empty.
pub fn allowed_cpus() -> Result<CpuSet, CaptureError> {
    let mut words = FIRST_WORDS;
    loop {
        let mut mask = vec![0u64; words];
        // SAFETY: the buffer is `words * 8` bytes long and lives through the call; the kernel
        // writes no more than the size it is given. The raw call accepts any size, glibc's
        // wrapper expects its own fixed type.
        let written =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, words * 8, mask.as_mut_ptr()) };
        if written >= 0 {
            return not_empty(cpus_of(&mask));
        }
        let error = std::io::Error::last_os_error();
        // EINVAL: the kernel's own mask is longer than ours.
        if error.raw_os_error() != Some(libc::EINVAL) || words >= MAX_WORDS {
            return Err(CaptureError::Affinity(error));
        }
        words *= 2;
    }
}

/// CPUs of a mask of 64-bit words in the machine's order (the kernel's `unsigned long`s).
fn cpus_of(mask: &[u64]) -> CpuSet {
    let mut cpus = CpuSet::new();
    for (bit, word) in (0u32..).step_by(64).zip(mask) {
        (0..64)
            .filter(|i| word >> i & 1 == 1)
            .for_each(|i| cpus.insert(Cpu::new(bit + i)));
    }
    cpus
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
    fn a_mask_of_many_words_becomes_the_cpus_of_its_bits() {
        let mut mask = vec![0u64; 32];
        mask[0] = 0b1001;
        mask[4] = 1;
        mask[31] = 1 << 63;
        assert_eq!(cpus_of(&mask).to_string(), "0,3,256,2047");
    }

    #[test]
    fn an_empty_mask_is_an_error() {
        assert!(matches!(
            not_empty(cpus_of(&[0, 0])),
            Err(CaptureError::NoCpus)
        ));
    }

    #[test]
    fn this_thread_may_run_where_proc_says() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        let listed: CpuSet = list.trim().parse().unwrap();
        let allowed = allowed_cpus().unwrap();
        assert!(allowed.difference(&listed).is_empty());
    }
}
