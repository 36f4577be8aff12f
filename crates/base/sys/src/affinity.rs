//! CPUs on which a thread may run. Any number of CPUs: sets of the C library and of `rustix` end at 1,024.

use idlewave_units::{Cpu, CpuSet};
use std::io;

/// Bits of a word of the mask as the kernel counts them, an `unsigned long`.
const WORD_BITS: usize = usize::BITS as usize;
/// Words of the first try: 1,024 CPUs, as glibc's `cpu_set_t`.
const FIRST_WORDS: usize = 1024 / WORD_BITS;
/// Words beyond which no kernel is built (`NR_CPUS` ends at 8,192 on x86; this is 1,048,576 CPUs).
const MAX_WORDS: usize = (1 << 20) / WORD_BITS;

/// CPUs on which the calling thread may run: its affinity mask less CPUs that are offline or outside its cpuset.
///
/// # Errors
/// The kernel refuses.
pub fn allowed() -> io::Result<CpuSet> {
    let mut words = FIRST_WORDS;
    loop {
        let mut mask = vec![0_usize; words];
        // SAFETY: the buffer is of so many bytes and lives through the call; the kernel writes no more than the size it is given. The
        // raw call accepts any size, glibc's wrapper expects its own fixed type.
        let written = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                0,
                size_of_val(mask.as_slice()),
                mask.as_mut_ptr(),
            )
        };
        if written >= 0 {
            return Ok(cpus_of(&mask));
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel's own mask is longer than ours.
        if error.raw_os_error() != Some(libc::EINVAL) || words >= MAX_WORDS {
            return Err(error);
        }
        words *= 2;
    }
}

/// Binds the calling thread to these CPUs.
///
/// # Errors
/// None of them exists and is allowed for this process.
pub fn bind(cpus: &CpuSet) -> io::Result<()> {
    let words = cpus.iter().last().map_or(0, |cpu| cpu.index() / WORD_BITS) + 1;
    let mut mask = vec![0_usize; words];
    for cpu in cpus.iter() {
        mask[cpu.index() / WORD_BITS] |= 1 << (cpu.index() % WORD_BITS);
    }
    // SAFETY: the pointer and the length in bytes describe `mask`, which the call only reads; thread 0 is the caller.
    let done =
        unsafe { libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The CPU on which the calling thread is now.
pub fn current() -> Cpu {
    Cpu::new(rustix::thread::sched_getcpu() as u32)
}

/// CPUs of a mask.
fn cpus_of(mask: &[usize]) -> CpuSet {
    let bits = 0..mask.len() * WORD_BITS;
    bits.filter(|bit| mask[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 1)
        .map(|bit| Cpu::new(bit as u32))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_of_many_words_becomes_the_cpus_of_its_bits() {
        let mut mask = vec![0; 2048 / WORD_BITS];
        mask[0] = 0b1001;
        mask[256 / WORD_BITS] = 1;
        mask[2047 / WORD_BITS] = 1 << (WORD_BITS - 1);
        assert_eq!(cpus_of(&mask).to_string(), "0,3,256,2047");
    }

    #[test]
    fn this_thread_may_run_where_proc_says() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        let listed: CpuSet = list.trim().parse().unwrap();
        let allowed = allowed().unwrap();
        assert!(allowed.difference(&listed).is_empty());
        assert!(allowed.contains(current()));
    }

    #[test]
    fn a_thread_that_is_bound_to_one_cpu_may_run_there_only_until_it_is_bound_to_more() {
        let before = allowed().unwrap();
        let last: CpuSet = before.iter().last().into_iter().collect();
        bind(&last).unwrap();
        assert_eq!(allowed().unwrap(), last);
        assert_eq!(Some(current()), last.iter().next());
        bind(&before).unwrap();
        assert_eq!(allowed().unwrap(), before);
        for nowhere in [CpuSet::new(), [Cpu::new(60_000)].into_iter().collect()] {
            assert!(bind(&nowhere).is_err());
        }
    }
}
