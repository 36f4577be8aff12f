//! The owner's side of a device: it moves frames between contexts and the network, and switches
//! when told to.

use super::gang::Admitted;
use super::shape::{CLOSED, Shared};
use super::waits::Doing;
use super::{DeviceError, Gang, Within};
use crate::netctx::frame::{Header, Kind, Link};
use crate::netctx::talk::Traffic;
use crate::netctx::transport::Transport;
use crate::netctx::{Counts, Policy};
use idlewave_sys::futex::wake;
use idlewave_units::Nanos;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// The most frames taken from the transport before others are sent.
const AT_ONCE: u32 = 64;
/// The most frames of later epochs that are kept: another node may resume some tenths of a
/// millisecond before this one.
const LATER: usize = 1_024;
/// Interval between notices of a failed gang to other nodes, nanoseconds: a notice may be lost in
/// transit, and none is acknowledged.
const TELL: u64 = 50_000_000;
/// The longest wait, and the longest if the transport must be polled or had no room.
const LONGEST: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_micros(500);

/// A device without its thread.
pub(super) struct Owner<T> {
    pub(super) shared: Shared,
    transport: T,
    policy: Policy,
    timeout: Nanos,
    /// By slot.
    gangs: Vec<Option<Admitted>>,
    /// The slot of the active gang.
    active: Option<u32>,
    /// Whether the gate is open. The word in the device is for the ranks, which could change it.
    open: bool,
    /// The last ticket issued.
    ticket: u32,
    later: Vec<Vec<u8>>,
    frame: Vec<u8>,
    traffic: Traffic,
}

impl<T: Transport> Owner<T> {
    pub(super) fn new(shared: Shared, transport: T, policy: Policy, timeout: Nanos) -> Self {
        let gangs = (0..shared.shape.gangs).map(|_| None).collect();
        Self {
            shared,
            transport,
            policy,
            timeout,
            gangs,
            active: None,
            open: false,
            ticket: CLOSED,
            later: Vec::new(),
            frame: Vec::new(),
            traffic: Traffic::default(),
        }
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn active_gang(&self) -> Option<&Admitted> {
        self.gangs.get(self.active? as usize)?.as_ref()
    }

    fn find(&self, gang: u32) -> Result<&Admitted, DeviceError> {
        let mut all = self.gangs.iter().flatten();
        let found = all.find(|admitted| admitted.gang == gang);
        found.ok_or(DeviceError::NoSuchGang(gang))
    }

    pub(super) fn active(&self) -> Option<u32> {
        self.active_gang().map(|admitted| admitted.gang)
    }

    pub(super) fn admit(&mut self, gang: &Gang) -> Result<(), DeviceError> {
        if self.find(gang.gang).is_ok() {
            return Err(DeviceError::Admitted(gang.gang));
        }
        let free = self.gangs.iter().position(Option::is_none);
        let slot = free.ok_or_else(|| DeviceError::NoRoom {
            gang: gang.gang,
            reason: format!("there are {} gangs", self.gangs.len()),
        })?;
        let longest = self.transport.longest();
        let place = (slot as u32, self.ticket + 1);
        let (shared, policy) = (&self.shared, self.policy);
        let admitted = Admitted::new(shared, place, policy, gang, longest, self.timeout)?;
        self.ticket += 1;
        self.gangs[slot] = Some(admitted);
        Ok(())
    }

    pub(super) fn dismiss(&mut self, gang: u32) -> Result<(), DeviceError> {
        let slot = self.find(gang)?.slot;
        if self.active == Some(slot) {
            self.check_quiet()?;
            self.active = None;
        }
        self.find(gang)?.withdraw(&self.shared);
        let entry = self.shared.entry(slot);
        entry.size.store(0, Ordering::Release);
        self.gangs[slot as usize] = None;
        Ok(())
    }

    pub(super) fn nodes(&self, gang: u32) -> Result<Vec<u32>, DeviceError> {
        Ok(self.find(gang)?.nodes.clone())
    }

    pub(super) fn processes(&self, gang: u32) -> Result<Vec<Option<u32>>, DeviceError> {
        Ok(self.find(gang)?.processes(&self.shared))
    }

    pub(super) fn has_failed(&self, gang: u32) -> Result<bool, DeviceError> {
        Ok(self.find(gang)?.has_failed(&self.shared))
    }

    pub(super) fn fail(&mut self, gang: u32) -> Result<(), DeviceError> {
        self.find(gang)?.fail(&self.shared);
        Ok(())
    }

    /// Fails a gang whose ranks do not leave the device, and stops waiting for them: whatever they
    /// still do there harms only gangs of their own user.
    pub(super) fn abandon(&mut self, gang: u32) -> Result<(), DeviceError> {
        self.fail(gang)?;
        let mut all = self.gangs.iter_mut().flatten();
        if let Some(admitted) = all.find(|admitted| admitted.gang == gang) {
            admitted.abandoned = true;
        }
        Ok(())
    }

    /// A rank of the active gang that is inside the device.
    pub(super) fn within(&self) -> Option<Within> {
        self.active_gang()?.inside(&self.shared)
    }

    pub(super) fn withdraw(&mut self, gang: u32) -> Result<(), DeviceError> {
        self.find(gang)?.withdraw(&self.shared);
        Ok(())
    }

    /// One turn: takes in what has arrived, and sends what there is to send.
    pub(super) fn turn(&mut self, now: Nanos) {
        let mut frame = std::mem::take(&mut self.frame);
        for _ in 0..AT_ONCE {
            if !self.transport.receive(&mut frame) {
                break;
            }
            self.hear(&frame);
        }
        self.frame = frame;
        let active = self
            .active
            .and_then(|slot| self.gangs[slot as usize].as_mut());
        if let Some(active) = active {
            let traffic = &mut self.traffic;
            active.speak(&self.shared, now, &mut self.transport, traffic);
        }
        self.tell_of_failures(now);
    }

    fn hear(&mut self, frame: &[u8]) {
        let Ok((header, payload)) = Header::decode(frame) else {
            self.traffic.damaged += 1;
            return;
        };
        if header.kind == Kind::Fail {
            self.traffic.taken += 1;
            // The gang may be gone already.
            let _ = self.fail(header.link.gang);
            return;
        }
        let shared = &self.shared;
        let active = self
            .active
            .and_then(|slot| self.gangs[slot as usize].as_mut());
        let own = active.as_ref().map_or(0, |active| active.epoch());
        let taken = active.is_some_and(|active| active.hear(shared, &header, payload));
        match taken {
            true => self.traffic.taken += 1,
            // Without this it would be retransmitted only after a time-out, which is a large part
            // of a slice.
            false if header.link.epoch > own && self.later.len() < LATER => {
                self.later.push(frame.to_vec());
            }
            false => self.traffic.foreign += 1,
        }
    }

    fn tell_of_failures(&mut self, now: Nanos) {
        for admitted in self.gangs.iter_mut().flatten() {
            let due = admitted
                .told
                .is_none_or(|told| now.get() >= told.get() + TELL);
            if !due || !admitted.has_failed(&self.shared) {
                continue;
            }
            admitted.told = Some(now);
            let own = self.shared.shape.node;
            let link = Link {
                gang: admitted.gang,
                source: own,
                ..Link::default()
            };
            let header = Header {
                kind: Kind::Fail,
                link,
                sequence: 0,
                limit: 0,
            };
            let mut frame = Vec::new();
            header.encode(&[], &mut frame);
            let others: std::collections::BTreeSet<u32> = admitted.nodes.iter().copied().collect();
            for node in others.into_iter().filter(|node| *node != own) {
                // Whatever finds no room is sent again later.
                if self.transport.send(node, &frame) {
                    self.traffic.sent += 1;
                }
            }
        }
    }

    /// Closes the gate.
    pub(super) fn stop(&mut self, gang: u32) -> Result<(), DeviceError> {
        let slot = self.find(gang)?.slot;
        if self.active != Some(slot) {
            return Ok(());
        }
        // SeqCst, and before the check for ranks inside: a rank announces itself before it reads
        // the gate, so one of the two sees the other.
        let gate = &self.shared.front().gate.0;
        self.open = false;
        gate.store(CLOSED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if let Some(active) = &mut self.gangs[slot as usize] {
            active.stop(&self.shared);
        }
        Ok(())
    }

    /// Fails unless the gate is closed and no rank is inside.
    fn check_quiet(&self) -> Result<(), DeviceError> {
        let Some(active) = self.active_gang() else {
            return Ok(());
        };
        if self.open {
            return Err(DeviceError::NotStopped(active.gang));
        }
        match active.inside(&self.shared) {
            None => Ok(()),
            Some(within) => Err(DeviceError::Inside {
                gang: active.gang,
                rank: within.rank,
            }),
        }
    }

    /// Whether the active gang is stopped and has nothing in flight. For a failed gang, what is in
    /// flight does not count.
    pub(super) fn is_drained(&self) -> bool {
        self.check_quiet().is_ok()
            && self
                .active_gang()
                .is_none_or(|active| active.has_failed(&self.shared) || active.is_drained())
    }

    pub(super) fn counts(&self) -> Counts {
        let active = self.active_gang();
        active.map_or_else(Counts::default, |active| active.counts(&self.shared))
    }

    /// What the ranks of the active gang are doing, if it is stopped and drained.
    pub(super) fn doing(&self) -> Option<(u32, Vec<(u32, Doing)>)> {
        let active = self.active_gang().filter(|_| self.is_drained())?;
        if active.has_failed(&self.shared) {
            return None;
        }
        Some((active.gang, active.doing(&self.shared)))
    }

    pub(super) fn switch(&mut self, to: u32) -> Result<usize, DeviceError> {
        let slot = self.find(to)?.slot;
        self.check_quiet()?;
        if self.active == Some(slot) {
            return Ok(0);
        }
        let mut copied = 0;
        if self.policy != Policy::Resident {
            let old = self
                .active
                .and_then(|old| self.gangs[old as usize].as_mut());
            copied += old.map_or(0, |old| old.save(&self.shared, self.policy));
            let new = self.gangs[slot as usize].as_mut();
            copied += new.map_or(0, |new| new.restore(&self.shared, self.policy));
        }
        self.active = Some(slot);
        Ok(copied)
    }

    pub(super) fn resume(&mut self, epoch: u64) -> Result<(), DeviceError> {
        let slot = self.active.ok_or(DeviceError::NoGang)?;
        let Some(active) = &mut self.gangs[slot as usize] else {
            return Err(DeviceError::NoGang);
        };
        active.resume(&self.shared, epoch)?;
        let ticket = active.ticket;
        for frame in std::mem::take(&mut self.later) {
            self.hear(&frame);
        }
        let gate = &self.shared.front().gate.0;
        // SeqCst includes Release: whoever sees the gate open sees the context behind it.
        self.open = true;
        gate.store(ticket, Ordering::SeqCst);
        wake(gate);
        Ok(())
    }

    /// What to wait for, and for how long at most; `None` if there is something to do now.
    pub(super) fn wait(&mut self, now: Nanos) -> Option<(Vec<i32>, Duration)> {
        let mut descriptors = Vec::new();
        for admitted in self.gangs.iter_mut().flatten() {
            admitted.watch(&self.shared, &mut descriptors);
        }
        // A rank that puts something in reads this word afterwards, and rings if it is set: one of
        // the two sees the other.
        let asleep = &self.shared.front().asleep.0;
        asleep.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let active = self.active_gang();
        if self.open && active.is_some_and(|active| active.has_news(&self.shared)) {
            asleep.store(0, Ordering::SeqCst);
            return None;
        }
        let polled = self.transport.descriptor();
        let mut longest = LONGEST;
        let asks = polled.is_none() && self.transport.brings();
        if asks || active.is_some_and(Admitted::is_held_up) {
            longest = SOON;
        }
        if let Some(due) = active.and_then(Admitted::due) {
            longest = longest.min(due.saturating_sub(now).to_duration());
        }
        descriptors.extend(polled);
        Some((descriptors, longest))
    }

    /// Ends the device: ranks that wait for it fail.
    pub(super) fn end(&mut self) {
        for admitted in self.gangs.iter().flatten() {
            admitted.withdraw(&self.shared);
        }
        wake(&self.shared.front().gate.0);
    }

    /// The wait is over; `ended` says whether a descriptor became readable.
    pub(super) fn woke(&mut self, ended: impl Fn(i32) -> bool) {
        self.shared.front().asleep.0.store(0, Ordering::SeqCst);
        for admitted in self.gangs.iter_mut().flatten() {
            admitted.look_after(&self.shared, &ended);
        }
    }
}
