//! Notices the end of a gang here. One process of each gang is watched by a handle
//! (`pidfd_open(2)`), since the gang lives as long as that process does. So the end of the last
//! process is noticed at once, or at the scout's next look if the kernel has no handles.

use crate::wait::wait;
use idlewave_gang::GangId;
use idlewave_sys::process::handle;
use idlewave_units::{Nanos, Pid};
use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// One living process of each gang, as far as handles are available.
#[derive(Debug, Default)]
pub struct Witnesses(BTreeMap<GangId, (Pid, OwnedFd)>);

impl Witnesses {
    /// Become readable when a witness ends.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.values().map(|(_, handle)| handle.as_fd())
    }

    /// Replaces witnesses that have ended, or left their gangs. `members` are the processes of each
    /// gang, in order of preference. True if a witness ended and no other process of its gang
    /// lives, as far as is known.
    pub fn renew(&mut self, members: &BTreeMap<GangId, Vec<Pid>>) -> bool {
        let mut last_ended = false;
        let mut before = std::mem::take(&mut self.0);
        for (gang, pids) in members {
            let witness = before.remove(gang).filter(|(pid, _)| pids.contains(pid));
            let had = witness.is_some();
            let others = pids
                .iter()
                .filter_map(|pid| Some((*pid, handle(*pid).ok()?)));
            let alive = witness
                .into_iter()
                .chain(others)
                .find(|(_, handle)| !has_ended(handle));
            last_ended |= had && alive.is_none();
            self.0.extend(alive.map(|witness| (*gang, witness)));
        }
        last_ended
    }
}

fn has_ended(handle: &OwnedFd) -> bool {
    wait(&[handle.as_fd()], Some(Nanos::ZERO)).is_ok_and(|ready| ready == [true])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Ended, sleep};
    use idlewave_freeze::clock;

    #[test]
    fn the_end_of_the_last_one_of_a_gang_is_told_and_no_other() {
        let (mut one, mut other) = (sleep(&[]), sleep(&[]));
        let gang = GangId::new(1);
        let members = BTreeMap::from([(gang, vec![one.pid(), other.pid()])]);
        let mut witnesses = Witnesses::default();
        assert!(!witnesses.renew(&members));
        if witnesses.0.is_empty() {
            println!("skipped: this kernel has no handles of processes");
            return;
        }
        let rings = |process: &mut Ended, witnesses: &mut Witnesses| {
            assert_eq!(witnesses.0[&gang].0, process.pid());
            let sockets: Vec<_> = witnesses.sockets().collect();
            assert_eq!(wait(&sockets, Some(Nanos::ZERO)).unwrap(), [false]);
            process.kill();
            let limit = clock::now() + Nanos::from_secs(60);
            assert_eq!(wait(&sockets, Some(limit)).unwrap(), [true]);
            drop(sockets);
            // It was not reaped: it still exists as a zombie.
            witnesses.renew(&members)
        };
        assert!(!rings(&mut one, &mut witnesses));
        assert!(rings(&mut other, &mut witnesses));
        // Once.
        assert!(!witnesses.renew(&members));
        drop((one, other));
        assert!(!witnesses.renew(&members) && witnesses.0.is_empty());
    }

    #[test]
    fn who_is_of_no_gang_any_more_is_not_followed() {
        let process = sleep(&[]);
        let gang = GangId::new(1);
        let of = |pids: &[Pid]| BTreeMap::from([(gang, pids.to_vec())]);
        let mut witnesses = Witnesses::default();
        for none in [of(&[]), BTreeMap::new()] {
            witnesses.renew(&of(&[process.pid()]));
            assert!(!witnesses.renew(&none));
            assert_eq!(witnesses.sockets().count(), 0);
        }
    }
}
