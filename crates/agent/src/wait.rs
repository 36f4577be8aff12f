//! Waiting asleep for sockets and moments (`ppoll(2)`), and the timers of a state machine.

use idlewave_freeze::clock;
use idlewave_gang::protocol::{Epoch, Timer};
use idlewave_units::Nanos;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Waits until one of `sockets` can be read, or `until` is there; says which can. With `None` only sockets and signals end it.
///
/// # Errors
/// What the kernel refuses; a signal is none, nothing can be read then.
pub fn wait(sockets: &[BorrowedFd<'_>], until: Option<Nanos>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = sockets
        .iter()
        .map(|socket| libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let left = until.map(|moment| moment.saturating_sub(clock::now()).to_duration());
    let time = left.map(|left| libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(left.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the list and the time outlive the call, and the length is that of the list.
    let n = unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            time,
            std::ptr::null(),
        )
    };
    if n < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![false; polled.len()]);
    }
    // An error or the other end's leaving is found by reading.
    Ok(polled.iter().map(|p| p.revents != 0).collect())
}

/// The timers that a state machine has set: one of each name.
#[derive(Clone, Debug, Default)]
pub struct Timers(BTreeMap<Timer, (Nanos, Epoch)>);

impl Timers {
    /// Sets a timer in place of the one of that name.
    pub fn set(&mut self, name: Timer, epoch: Epoch, at: Nanos) {
        self.0.insert(name, (at, epoch));
    }
    /// The clock of the timers is set by so much, ns.
    pub fn shift(&mut self, by: i64) {
        for (at, _) in self.0.values_mut() {
            *at = Nanos::from_nanos(at.get().saturating_add_signed(by));
        }
    }
    /// The first moment at which one fires.
    pub fn next(&self) -> Option<Nanos> {
        self.0.values().map(|(at, _)| *at).min()
    }
    /// Takes one that is due, the earliest first.
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
