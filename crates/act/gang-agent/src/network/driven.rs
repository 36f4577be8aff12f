//! The agent's state of one device, and of one gang with contexts.

use super::NetworkError;
use super::sealed::Sealed;
use crate::contexts::{DeviceSpec, Placed};
use crate::marked::{cpu_time, may_run};
use crate::parcel::Spec;
use idlewave_fabric::netctx::transport::Addresses;
use idlewave_fabric::netctx::{Device, Udp, Within};
use idlewave_gang::protocol::Slot;
use idlewave_units::{Nanos, NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A device and its state.
pub(super) struct Driven {
    pub(super) spec: DeviceSpec,
    pub(super) device: Device<Option<Sealed<Udp>>>,
    pub(super) addresses: Addresses,
    /// Where it listens; `None`: it has no traffic between nodes.
    pub(super) at: Option<SocketAddr>,
    /// Whether the active gang may use it.
    pub(super) open: bool,
    /// Whether it was open at the last stop: its frames are counted.
    pub(super) counted: bool,
    /// Consecutive switches abandoned because a rank was inside it.
    pub(super) late: Option<Late>,
}

/// Switches abandoned one after another because a rank was inside its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    /// The first one.
    since: Instant,
    switches: u32,
    /// Who was inside at the last one.
    within: Within,
    /// CPU time that its process had used at the first one.
    used: Nanos,
    /// Whether it left since then, or another rank was inside.
    moves: bool,
}

impl Late {
    fn new(within: Within) -> Self {
        Self {
            since: Instant::now(),
            switches: 0,
            within,
            used: cpu_time(Pid::new(within.process)),
            moves: false,
        }
    }

    /// Whether its gang must fail. A rank that waits for a CPU cannot leave, so the patience is for
    /// the CPU time that it gets; if it sleeps inside, for the time that passes.
    fn is_over(&self, stuck: &Stuck) -> bool {
        let (elapsed, process) = (self.since.elapsed(), Pid::new(self.within.process));
        let used = || cpu_time(process).saturating_sub(self.used);
        let never_leaves = || used() >= stuck.patience.into() || !may_run(process);
        let is_stuck = !self.moves && elapsed >= stuck.patience && never_leaves();
        self.switches >= TRIES && (is_stuck || elapsed >= stuck.longest)
    }
}

/// Users with a rank that did not leave its device.
#[derive(Debug)]
pub(super) struct Stuck {
    /// How long switches are abandoned because of a rank that never leaves its device, before its
    /// gang fails. A rank is normally inside for microseconds, but may be preempted there.
    pub(super) patience: Duration,
    /// The same for ranks that do leave it, or get no CPU to do so: on a machine that others use
    /// fully, at switch after switch some rank may be preempted inside. A gang that stays there on
    /// purpose ends after this.
    pub(super) longest: Duration,
    users: BTreeMap<u32, Instant>,
}

/// Least number of switches abandoned.
const TRIES: u32 = 3;
/// How long such a user gets no more devices: otherwise one gang after another could delay
/// everyone.
const BARRED: Duration = Duration::from_secs(60);

impl Default for Stuck {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(1),
            longest: Duration::from_secs(10),
            users: BTreeMap::new(),
        }
    }
}

impl Stuck {
    /// Whether a user gets no devices at present.
    pub(super) fn bars(&self, user: u32) -> bool {
        self.users
            .get(&user)
            .is_some_and(|at| at.elapsed() < BARRED)
    }
}

/// A gang with contexts.
pub(super) struct Member {
    pub(super) spec: Spec,
    pub(super) placed: Option<Placed>,
    /// Whether it is admitted to its device.
    pub(super) admitted: bool,
    pub(super) ticket: Option<PathBuf>,
    /// Ranks that are here, and those that ever were.
    pub(super) ranks: BTreeSet<u32>,
    pub(super) ever: BTreeSet<u32>,
    pub(super) size: Option<u32>,
    pub(super) trouble: Option<String>,
}

impl Member {
    pub(super) fn is_in(&self, slot: Slot) -> bool {
        match slot {
            Slot::All => true,
            Slot::Gang(row) => self.spec.rows.contains(&row.get()),
        }
    }
}

impl Driven {
    pub(super) fn stop(&mut self) {
        if let Some(late) = &mut self.late {
            late.moves |= self.device.within() != Some(late.within);
        }
        if let (Some(gang), true) = (self.device.active(), self.open) {
            // The gang is admitted, so this works.
            let _ = self.device.stop(gang);
        }
        self.open = false;
    }

    /// To be called if the device was not drained in time. If a rank is inside at switch after
    /// switch, its gang fails, and no one waits for it any more.
    ///
    /// # Errors
    /// This switch must be abandoned.
    pub(super) fn give_up(
        &mut self,
        stuck: &mut Stuck,
        trouble: &mut Option<String>,
    ) -> Result<(), NetworkError> {
        let (Some(gang), Some(inside)) = (self.device.active(), self.device.within()) else {
            return Err(NetworkError::Drain);
        };
        let user = self.spec.user;
        let within = NetworkError::Within {
            user,
            gang,
            rank: inside.rank,
        };
        let late = self.late.get_or_insert_with(|| Late::new(inside));
        late.switches += 1;
        late.moves |= late.within != inside;
        late.within = inside;
        if !late.is_over(stuck) {
            return Err(within);
        }
        self.late = None;
        stuck.users.insert(user, Instant::now());
        *trouble = Some(format!("{within}: the gang has failed, others continue"));
        self.device.abandon(gang)?;
        match self.device.is_drained() {
            true => Ok(()),
            false => Err(NetworkError::Drain),
        }
    }

    pub(super) fn know(&mut self, spec: &DeviceSpec, own: NodeId) {
        for (node, at) in spec.at.iter().filter(|(node, _)| *node != own) {
            self.addresses.know(node.get(), *at);
        }
        self.spec.at.clone_from(&spec.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Ended, sleep};
    use std::process::Command;

    const LONG: Duration = Duration::from_secs(60);

    /// A rank of a process that is inside longer than the patience, which used that much CPU time
    /// by then.
    fn inside(process: &Ended, used: Nanos) -> Late {
        let within = Within {
            rank: 0,
            entry: 1,
            process: process.pid().get(),
        };
        Late {
            switches: TRIES,
            used,
            ..Late::new(within)
        }
    }

    fn stuck(patience: Duration) -> Stuck {
        Stuck {
            patience,
            longest: Duration::from_secs(3_600),
            ..Stuck::default()
        }
    }

    #[test]
    fn a_rank_that_gets_no_cpu_inside_has_time_and_one_that_uses_it_or_sleeps_has_not() {
        let patience = Duration::from_millis(10);
        let busy = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .map(Ended)
            .unwrap();
        let asleep = sleep(&[]);
        let begun = Instant::now();
        while cpu_time(busy.pid()) < patience.into() || may_run(asleep.pid()) {
            assert!(begun.elapsed() < LONG, "they do not get there");
            std::thread::sleep(Duration::from_millis(5));
        }
        // As much as it will ever use: none since.
        let all = Nanos::from_secs(3_600);
        let (starved, stays) = (inside(&busy, all), inside(&busy, Nanos::ZERO));
        let sleeps = inside(&asleep, all);
        assert!(!stays.is_over(&stuck(LONG)), "it has just entered");
        std::thread::sleep(patience);
        let stuck = stuck(patience);
        assert!(!starved.is_over(&stuck));
        assert!(stays.is_over(&stuck));
        assert!(sleeps.is_over(&stuck));
        let moves = |late| Late {
            moves: true,
            ..late
        };
        assert!(!moves(stays).is_over(&stuck) && !moves(sleeps).is_over(&stuck));
        let once = Late {
            switches: TRIES - 1,
            ..stays
        };
        assert!(!once.is_over(&stuck));
        let longest = Duration::ZERO;
        let stuck = Stuck { longest, ..stuck };
        assert!(starved.is_over(&stuck) && moves(stays).is_over(&stuck));
    }
}
