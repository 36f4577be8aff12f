//! The clock of the node and waiting for a moment of it, asleep (`clock_nanosleep(2)` with `TIMER_ABSTIME`).
//!
//! Waiting is never spinning. Measured on two CPUs: a loop of 5 us at real-time priority starved the helper threads of
//! MPI ranks on its CPU, so that a freeze took 18 ms in the median instead of 0.13 ms.

use idlewave_units::Nanos;
use std::time::Duration;

/// Now, since the start of `CLOCK_MONOTONIC` (the node's boot, without sleep).
pub fn now() -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure outlives the call, which writes only to it.
    // It cannot fail: the clock exists on every Linux, and the pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Nanos::from(Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    ))
}

/// Sleeps until that moment of `CLOCK_MONOTONIC`; returns at once if it has passed, and not before it whatever signals
/// come. How late it wakes depends on the scheduler: tens of us at real-time priority, up to milliseconds without.
/// A moment beyond some 292 years never comes.
pub fn sleep_until(moment: Nanos) {
    let at = moment.to_duration();
    let request = libc::timespec {
        tv_sec: libc::time_t::try_from(at.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(at.subsec_nanos()),
    };
    // SAFETY: the request outlives the call; nothing is written as the time is absolute.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &request,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Looks at once and then with [`pause`]s until there is something, or `limit` is over; the last look is at the limit or
/// after it. What was found, and how long it took; `None` where the time was over.
pub(crate) fn look_until<T, E>(
    start: Nanos,
    limit: Nanos,
    mut look: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<(T, Nanos)>, E> {
    loop {
        let begun = now();
        if let Some(found) = look()? {
            return Ok(Some((found, now().saturating_sub(start))));
        }
        let end = start + limit;
        if begun >= end {
            return Ok(None);
        }
        let now = now();
        sleep_until((now + pause(now.saturating_sub(start))).min(end));
    }
}

/// Between two looks, when so much time has passed. What takes long waits for CPUs that others have, and a look of real-time priority takes
/// one too: on two busy CPUs, where a freeze took 4 ms in the median, looks every 100 us took a sixth of that time.
fn pause(passed: Nanos) -> Nanos {
    LOOK_EVERY.max(Nanos::from_nanos(passed.get() / 8))
}

/// Notification of `cgroup.events` is limited to one in about 10 ms, so the state is read again, this often. A freeze of two busy processes of one thread takes
/// 40 us; looks every 100, 30 and 15 us see it after 129, 55 and 42 us (`--example freeze_cost`, n = 80). With three threads each, looks every 15 us were no better
/// than every 30, as who looks takes a CPU from those who are to stop.
const LOOK_EVERY: Nanos = Nanos::from_micros(30);

#[cfg(test)]
mod tests {
    use super::*;

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
    fn it_is_looked_again_with_pauses_until_something_is_there() {
        let start = now();
        let mut looks = 0_u64;
        let found = look_until(start, Nanos::from_secs(5), || {
            looks += 1;
            Ok::<_, ()>((looks == 5).then_some('x'))
        });
        let (what, after) = found.unwrap().unwrap();
        assert_eq!((what, looks), ('x', 5));
        // Four pauses lie between five looks.
        assert!(after >= Nanos::from_micros(120), "{after}");
        assert!(after <= now().saturating_sub(start));
    }

    #[test]
    fn at_the_limit_it_is_looked_a_last_time() {
        let start = now();
        let limit = Nanos::from_millis(2);
        let mut last = Nanos::ZERO;
        let mut looks = 0_u64;
        let found = look_until(start, limit, || {
            looks += 1;
            last = now();
            Ok::<Option<()>, ()>(None)
        });
        assert_eq!(found, Ok(None));
        assert!(last >= start + limit);
        // A spinning wait looks thousands of times in this time.
        assert!((2..=30).contains(&looks), "{looks} looks");
        // Without any time there still is one look.
        let at_once = look_until(now(), Nanos::ZERO, || Ok::<_, ()>(Some(1)));
        assert_eq!(at_once.unwrap().unwrap().0, 1);
    }

    #[test]
    fn what_takes_long_is_looked_at_less_often_and_found_an_eighth_later_at_most() {
        let us = Nanos::from_micros;
        assert_eq!(pause(us(0)), us(30));
        assert_eq!(pause(us(240)), us(30));
        assert_eq!(pause(us(8_000)), us(1_000));
        // Looks of a freeze that takes 150 ms.
        let (mut at, mut looks) = (us(0), 0);
        while at < us(150_000) {
            at += pause(at);
            looks += 1;
        }
        assert_eq!(looks, 63);
    }

    #[test]
    fn an_error_of_a_look_ends_the_wait() {
        let found = look_until(now(), Nanos::from_secs(100), || Err::<Option<()>, _>("no"));
        assert_eq!(found, Err("no"));
    }
}
