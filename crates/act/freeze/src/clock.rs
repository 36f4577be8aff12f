//! The clock of the node, and sleeping until a time on it.
//!
//! Waiting never spins. Measured on two CPUs: a loop of 5 us at real-time priority starved the
//! helper threads of MPI ranks on its CPU, so that a freeze took 18 ms in the median instead of
//! 0.13 ms.

use idlewave_units::Nanos;

pub use idlewave_sys::clock::{now, sleep_until};

/// Polls at once, then with [`pause`]s, until there is a result or `limit` is over; the last poll
/// is at the limit or later. Returns the result and how long it took; `None` after the limit.
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

/// The pause between two polls, after polling for this long. A slow operation waits for CPUs in use
/// by others, and polling at real-time priority takes a CPU too: on two busy CPUs, where a freeze
/// took 4 ms in the median, polling every 100 us took a sixth of that time.
fn pause(passed: Nanos) -> Nanos {
    LOOK_EVERY.max(Nanos::from_nanos(passed.get() / 8))
}

/// Notifications of `cgroup.events` are limited to about one in 10 ms, so the state is polled at
/// this interval. A freeze of two busy single-threaded processes takes 40 us; polling every 100, 30
/// and 15 us notices it after 129, 55 and 42 us (`--example freeze_cost`, n = 80). With three
/// threads each, polling every 15 us was no better than every 30, since polling takes a CPU from
/// the processes that must stop.
const LOOK_EVERY: Nanos = Nanos::from_micros(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_again_with_pauses_until_something_is_there() {
        let start = now();
        let mut looks = 0_u64;
        let found = look_until(start, Nanos::from_secs(60), || {
            looks += 1;
            Ok::<_, ()>((looks == 5).then_some('x'))
        });
        let (what, after) = found.unwrap().unwrap();
        assert_eq!((what, looks), ('x', 5));
        // Five polls have four pauses in between.
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
        // A spinning wait would poll thousands of times.
        assert!((1..=30).contains(&looks), "{looks} looks");
        // Even without any time there is one poll.
        let at_once = look_until(now(), Nanos::ZERO, || Ok::<_, ()>(Some(1)));
        assert_eq!(at_once.unwrap().unwrap().0, 1);
    }

    #[test]
    fn what_takes_long_is_looked_at_less_often_and_found_an_eighth_later_at_most() {
        let us = Nanos::from_micros;
        assert_eq!(pause(us(0)), us(30));
        assert_eq!(pause(us(240)), us(30));
        assert_eq!(pause(us(8_000)), us(1_000));
        // Polls during a freeze that takes 150 ms.
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
