//! Sleeps until sockets are readable or a time has come (`ppoll(2)`), and the timers of a state
//! machine.

use idlewave_freeze::clock;
use idlewave_gang::protocol::{Epoch, Timer};
use idlewave_sys::poll;
use idlewave_units::Nanos;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

/// Waits until one of `sockets` is readable, or until `until`; returns which are readable. With
/// `None` only sockets and signals end it.
///
/// # Errors
/// Those of the kernel. A signal is not an error; nothing is readable then.
pub fn wait(sockets: &[BorrowedFd<'_>], until: Option<Nanos>) -> io::Result<Vec<bool>> {
    let left = until.map(|moment| moment.saturating_sub(clock::now()).to_duration());
    // Errors and hang-ups are found by reading.
    poll::wait(sockets, left)
}

/// The timers of a state machine: one per name.
#[derive(Clone, Debug, Default)]
pub struct Timers(BTreeMap<Timer, (Nanos, Epoch)>);

impl Timers {
    /// Sets a timer, replacing the one of that name.
    pub fn set(&mut self, name: Timer, epoch: Epoch, at: Nanos) {
        self.0.insert(name, (at, epoch));
    }
    /// Shifts the clock of the timers, ns.
    pub fn shift(&mut self, by: i64) {
        for (at, _) in self.0.values_mut() {
            *at = Nanos::from_nanos(at.get().saturating_add_signed(by));
        }
    }
    /// The earliest time at which one fires.
    pub fn next(&self) -> Option<Nanos> {
        self.0.values().map(|(at, _)| *at).min()
    }
    /// Removes one that is due, the earliest first.
    pub fn due(&mut self, now: Nanos) -> Option<(Timer, Epoch)> {
        let (name, (_, epoch)) = self
            .0
            .iter()
            .filter(|(_, (at, _))| *at <= now)
            .min_by_key(|(name, (at, _))| (*at, **name))
            .map(|(name, set)| (*name, *set))?;
        self.0.remove(&name);
        Some((name, epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_wait_ends_at_its_moment_or_when_something_can_be_read() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let moment = clock::now() + Nanos::from_millis(5);
        let ready = wait(&[there.as_fd()], Some(moment)).unwrap();
        assert_eq!(ready, [false]);
        assert!(clock::now() >= moment);
        here.write_all(b"x").unwrap();
        let far = clock::now() + Nanos::from_secs(100);
        assert_eq!(
            wait(&[here.as_fd(), there.as_fd()], Some(far)).unwrap(),
            [false, true]
        );
        assert!(clock::now() < far);
    }

    #[test]
    fn timers_fire_in_the_order_of_their_moments_and_once() {
        let mut timers = Timers::default();
        let ms = Nanos::from_millis;
        timers.set(Timer::Repeat, Epoch::new(1), ms(5));
        timers.set(Timer::Lease, Epoch::new(1), ms(3));
        timers.set(Timer::Repeat, Epoch::new(2), ms(4));
        assert_eq!(timers.next(), Some(ms(3)));
        assert_eq!(timers.due(ms(2)), None);
        assert_eq!(timers.due(ms(9)), Some((Timer::Lease, Epoch::new(1))));
        assert_eq!(timers.due(ms(9)), Some((Timer::Repeat, Epoch::new(2))));
        assert_eq!((timers.due(ms(9)), timers.next()), (None, None));
    }
}
