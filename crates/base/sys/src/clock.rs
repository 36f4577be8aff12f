//! Clocks of the kernel, and sleeping until a moment of one: clock_gettime(2), clock_nanosleep(2) with `TIMER_ABSTIME`.
//!
//! For everything but the loops that measure: what these read is `idlewave-clock`.

use idlewave_units::Nanos;
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Now, since the start of `CLOCK_MONOTONIC` (the node's boot, without sleep).
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// CPU time of the calling thread so far.
pub fn thread_time() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    Nanos::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Sleeps until that moment of `CLOCK_MONOTONIC`; returns at once if it has passed, and not before it whatever signals
/// come. How late it wakes depends on the scheduler: tens of us at real-time priority, up to milliseconds without.
pub fn sleep_until(moment: Nanos) {
    let request = Timespec {
        tv_sec: (moment.get() / 1_000_000_000) as i64,
        tv_nsec: (moment.get() % 1_000_000_000) as _,
    };
    while clock_nanosleep_absolute(ClockId::Monotonic, &request) == Err(Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_sleep_ends_after_its_moment_and_not_before() {
        let moment = now() + Nanos::from_millis(3);
        sleep_until(moment);
        assert!(now() >= moment);
        // What has passed does not wait: a wait for the whole clock would never return.
        sleep_until(Nanos::ZERO);
    }

    #[test]
    fn a_signal_does_not_shorten_a_sleep() {
        extern "C" fn heard(_: libc::c_int) {}
        let handler = heard as extern "C" fn(libc::c_int);
        // SAFETY: the handler does nothing; no other test of this program uses the signal.
        let (thread, process) = unsafe {
            libc::signal(libc::SIGUSR1, handler as libc::sighandler_t);
            (libc::gettid(), libc::getpid())
        };
        let interrupts = std::thread::spawn(move || {
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(2));
                // SAFETY: numbers only, of a thread that waits for this one to end.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
            }
        });
        let moment = now() + Nanos::from_millis(30);
        sleep_until(moment);
        assert!(now() >= moment);
        interrupts.join().unwrap();
    }

    #[test]
    fn the_clock_counts_as_that_of_the_standard_library_does() {
        let (start, ours) = (std::time::Instant::now(), now());
        std::thread::sleep(Duration::from_millis(2));
        let ours = now().checked_sub(ours).unwrap();
        assert!(ours >= Nanos::from_millis(2));
        assert!(ours <= Nanos::from(start.elapsed()));
    }

    #[test]
    fn a_thread_that_sleeps_takes_no_cpu_time() {
        let (before, start) = (thread_time(), now());
        sleep_until(start + Nanos::from_millis(20));
        let slept = thread_time().checked_sub(before).unwrap();
        while thread_time().saturating_sub(before) < slept + Nanos::from_micros(100) {}
        assert!(now().saturating_sub(start) > thread_time().saturating_sub(before));
    }
}
