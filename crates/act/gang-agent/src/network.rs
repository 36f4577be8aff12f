//! The network devices of a node, driven by its agent: stops, drains and switches the contexts of
//! gangs.
//!
//! There is a device for each user and context size, in a directory of this agent. One gang on a
//! device is active; its gate is open while the gang's row has the CPUs, or while everything runs.
//! Draining sleeps in the agent's thread, for up to [`LIMIT`], while the device's own thread moves
//! frames. A device listens only if some of its gangs span several nodes, and accepts frames from
//! agents with its key.

mod driven;
mod error;
mod home;
mod looks;
mod sealed;
#[cfg(test)]
mod tests;

use crate::contexts::{ContextSeen, ContextSpec, DeviceKey, DeviceSpec, MOST_ON_DEVICE};
use crate::parcel::Spec;
use crate::scout::Found;
use crate::ticket::{MEMORY, ticket_of};
use driven::{Driven, Member, Stuck};
use error::LIMIT;
pub use error::NetworkError;
use home::Home;
use idlewave_fabric::netctx::device::{Gang, Setup, write_ticket};
use idlewave_fabric::netctx::transport::Addresses;
use idlewave_fabric::netctx::{Counts, Device, DeviceError, Udp};
use idlewave_gang::GangId;
use idlewave_gang::protocol::{Epoch, Slot};
use idlewave_sys::Uid;
use idlewave_units::NodeId;
use looks::Looks;
use sealed::Sealed;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time for a rank to leave that was just entering when the gate closed.
const LEAVE: Duration = Duration::from_millis(5);

/// When to look again for leftovers of an earlier agent, which may still have been ending when this
/// one started.
const AGAIN: Duration = Duration::from_secs(2);

/// All devices of a node.
pub struct Network {
    node: NodeId,
    address: IpAddr,
    home: Option<Home>,
    devices: BTreeMap<u32, Driven>,
    members: BTreeMap<u32, Member>,
    /// Removed gangs, by device, whose ranks have not left it.
    leaving: Vec<(u32, u32)>,
    /// The slot that has the CPUs; `None` while a switch has stopped everything.
    runs: Option<Slot>,
    looks: Looks,
    stuck: Stuck,
    /// Frames of all devices, including removed ones.
    forged: Arc<AtomicU64>,
    trouble: Option<String>,
    /// When to look again for leftovers.
    sweeps: Option<Instant>,
}

impl Network {
    /// Without devices. Frames from other nodes come to this address.
    pub fn new(node: NodeId, address: IpAddr) -> Self {
        home::sweep(Path::new(MEMORY));
        Self {
            node,
            address,
            home: None,
            devices: BTreeMap::new(),
            members: BTreeMap::new(),
            leaving: Vec::new(),
            runs: Some(Slot::All),
            looks: Looks::default(),
            stuck: Stuck::default(),
            forged: Arc::default(),
            trouble: None,
            sweeps: Some(Instant::now() + AGAIN),
        }
    }

    /// Errors since the last call, each once.
    pub fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// Stops gangs that are no longer in the running row, before their ranks are frozen, which
    /// could happen inside the device.
    pub fn prepare(&mut self, gangs: &[Spec]) {
        for member in self.members.values_mut() {
            let named = gangs.iter().find(|spec| spec.gang == member.spec.gang);
            if let Some(spec) = named {
                member.spec.rows.clone_from(&spec.rows);
            }
        }
        let runs = self.runs;
        let members = &self.members;
        for driven in self.devices.values_mut().filter(|driven| driven.open) {
            let active = driven.device.active();
            let member = active.and_then(|gang| members.get(&gang));
            let may = runs.is_some_and(|slot| member.is_some_and(|m| m.is_in(slot)));
            if !may {
                driven.stop();
                driven.device.wait_drained(LEAVE);
            }
        }
    }

    /// Sets the gangs with contexts and their locations. Ranks of removed ones fail.
    pub fn set(&mut self, gangs: &[Spec], contexts: &[ContextSpec], devices: &[DeviceSpec]) {
        let spec_of = |gang: u32| gangs.iter().find(|spec| spec.gang == gang);
        // Devices of an earlier controller that have the same number by chance.
        let others: BTreeSet<u32> = devices
            .iter()
            .filter(|spec| {
                let own = self.devices.get(&spec.device);
                own.is_some_and(|driven| driven.spec.key != spec.key)
            })
            .map(|spec| spec.device)
            .collect();
        let stays = |gang: u32, member: &Member| {
            let same = contexts.iter().any(|c| {
                let placed = member.placed.is_none() || c.placed == member.placed;
                c.gang == gang && placed
            });
            let other_key = member
                .placed
                .as_ref()
                .is_some_and(|p| others.contains(&p.device));
            same && !other_key && spec_of(gang).is_some_and(|s| s.mark == member.spec.mark)
        };
        let gone: Vec<u32> = self
            .members
            .iter()
            .filter(|(g, m)| !stays(**g, m))
            .map(|(g, _)| *g)
            .collect();
        for gang in gone {
            self.let_go(gang);
        }
        // Ranks still inside fail.
        self.devices.retain(|device, _| !others.contains(device));
        for context in contexts {
            let Some(spec) = spec_of(context.gang) else {
                continue;
            };
            let member = self.members.entry(context.gang).or_insert_with(|| Member {
                spec: spec.clone(),
                placed: None,
                admitted: false,
                ticket: None,
                ranks: BTreeSet::new(),
                ever: BTreeSet::new(),
                size: None,
                trouble: None,
            });
            member.spec = spec.clone();
            member.placed.clone_from(&context.placed);
        }
        self.sweep();
        for spec in devices {
            if let Some(driven) = self.devices.get_mut(&spec.device) {
                driven.know(spec, self.node);
            }
        }
        let waiting = self.members.iter().filter(|(_, m)| !m.admitted);
        let waiting: Vec<u32> = waiting.map(|(gang, _)| *gang).collect();
        for gang in waiting {
            let done = self.admit(gang, devices);
            if let Some(member) = self.members.get_mut(&gang) {
                member.trouble = done.err().map(|error| error.to_string());
            }
        }
        // This includes gangs that have just come: ranks that wait for their ticket must learn of
        // it.
        for context in contexts.iter().filter(|context| context.lost) {
            let device = context.placed.as_ref().map(|placed| placed.device);
            if let Some(driven) = device.and_then(|device| self.devices.get(&device)) {
                // If it is not admitted, none of its ranks waits.
                let _ = driven.device.fail(context.gang);
            }
        }
    }

    /// Applies found ranks; true if the controller should be told. If a rank ended before it was
    /// attached, its gang fails, since the others would wait for it.
    pub fn sighted(&mut self, found: &Found) -> bool {
        self.sweep();
        if self.sweeps.is_some_and(|at| Instant::now() >= at) {
            self.sweeps = None;
            home::sweep(Path::new(MEMORY));
        }
        let before = self.seen();
        for (gang, member) in &mut self.members {
            let Some(marked) = found.get(&GangId::new(*gang)) else {
                continue;
            };
            let own = || {
                let of_user = marked.iter().filter(|p| p.user == member.spec.uid());
                of_user.filter(|p| !p.launcher)
            };
            let ranks: BTreeSet<u32> = own().filter_map(|p| p.rank).collect();
            let size = own().filter_map(|p| p.size).max();
            member.ever.extend(&ranks);
            member.size = member.size.max(size);
            member.ranks = ranks;
            let (Some(placed), true) = (&member.placed, member.admitted) else {
                continue;
            };
            let Some(driven) = self.devices.get(&placed.device) else {
                continue;
            };
            let here = (0..).zip(&placed.nodes);
            let here = here.filter(|(_, node)| **node == self.node.get());
            let processes = driven.device.processes(*gang).unwrap_or_default();
            let lost = |(rank, process): (u32, &Option<u32>)| {
                process.is_none() && member.ever.contains(&rank) && !member.ranks.contains(&rank)
            };
            if here.map(|(rank, _)| rank).zip(&processes).any(lost) {
                // The gang is admitted, so this works.
                let _ = driven.device.fail(*gang);
            }
        }
        self.seen() != before
    }

    /// Reports on each gang with contexts.
    pub fn seen(&self) -> Vec<ContextSeen> {
        let one = |(gang, member): (&u32, &Member)| {
            let device = member.placed.as_ref().filter(|_| member.admitted);
            let driven = device.and_then(|placed| self.devices.get(&placed.device));
            let processes = driven.and_then(|driven| driven.device.processes(*gang).ok());
            let (looked, waits) = self.looks.of(*gang);
            let attached = processes.map_or(0, |all| all.iter().flatten().count());
            ContextSeen {
                gang: *gang,
                ranks: member.ranks.iter().copied().collect(),
                size: member.size,
                attached: attached as u32,
                failed: driven.is_some_and(|d| d.device.has_failed(*gang).unwrap_or(true)),
                looked,
                waits,
                trouble: member.trouble.clone(),
            }
        };
        self.members.iter().map(one).collect()
    }

    /// The addresses for frames of each device that can receive any.
    pub fn addresses(&self) -> Vec<(u32, SocketAddr)> {
        let at = |(n, driven): (&u32, &Driven)| Some((*n, driven.at?));
        self.devices.iter().filter_map(at).collect()
    }

    /// Frames dropped since the start because they were not made with their key.
    pub fn forged(&self) -> u64 {
        // Relaxed: a count that nothing else depends on.
        self.forged.load(Ordering::Relaxed)
    }

    /// Stops all injection.
    pub fn stop(&mut self) {
        self.runs = None;
        for driven in self.devices.values_mut() {
            driven.counted |= driven.open;
            driven.stop();
        }
    }

    /// Sleeps until nothing of the stopped gangs is in flight; returns what their ranks here ever
    /// sent and received.
    ///
    /// # Errors
    /// Not within the limit.
    pub fn drain(&mut self) -> Result<Counts, NetworkError> {
        let end = Instant::now() + LIMIT;
        let mut sum = Counts::default();
        let (stuck, trouble) = (&mut self.stuck, &mut self.trouble);
        for driven in self.devices.values_mut().filter(|driven| driven.counted) {
            let left = end.saturating_duration_since(Instant::now());
            let mut drained = driven.device.wait_drained(left);
            if !drained.complete {
                driven.give_up(stuck, trouble)?;
                drained = driven.device.wait_drained(Duration::ZERO);
            }
            let active = driven.device.active();
            let failed = active.is_none_or(|gang| driven.device.has_failed(gang).unwrap_or(true));
            // In-flight messages of a failed gang belong to no one.
            if !failed {
                sum.sent += drained.counts.sent;
                sum.received += drained.counts.received;
            }
        }
        Ok(sum)
    }

    /// Fails if anything of the stopped gangs is in flight: a rank may have been frozen just as it
    /// was about to enter.
    ///
    /// # Errors
    /// [`NetworkError::Drain`].
    pub fn check_drained(&mut self) -> Result<(), NetworkError> {
        let (stuck, trouble) = (&mut self.stuck, &mut self.trouble);
        let stopped = self.devices.values_mut();
        for driven in stopped.filter(|driven| driven.counted) {
            match driven.device.is_drained() {
                true => driven.late = None,
                false => driven.give_up(stuck, trouble)?,
            }
        }
        Ok(())
    }

    /// Examines the ranks of the stopped gangs, which are frozen and drained.
    pub fn look(&mut self) {
        let stopped = self.devices.values().filter(|driven| driven.counted);
        self.looks
            .take(stopped.filter_map(|driven| driven.device.doing()).collect());
    }

    /// Activates the contexts of a row's gangs, when all nodes are ready.
    ///
    /// # Errors
    /// A device is missing, or a rank is inside one.
    pub fn switch(&mut self, to: Slot, epoch: Epoch) -> Result<(), NetworkError> {
        self.looks.confirm(epoch.get());
        let Slot::Gang(_) = to else { return Ok(()) };
        for (gang, member) in self.members.iter().filter(|(_, m)| m.is_in(to)) {
            let Some(placed) = &member.placed else {
                continue;
            };
            if !placed.nodes.contains(&self.node.get()) {
                continue;
            }
            let driven = self.devices.get(&placed.device).filter(|_| member.admitted);
            let driven = driven.ok_or(NetworkError::Absent(*gang))?;
            match driven.device.switch(*gang, LEAVE) {
                // Its ranks are frozen and were outside, so none of them has set this.
                Err(DeviceError::Inside { gang: within, .. }) => {
                    driven.device.abandon(within)?;
                    driven.device.switch(*gang, LEAVE)?;
                }
                done => done.map(|_| ())?,
            }
        }
        Ok(())
    }

    /// Opens the active contexts of a row, or all active ones, in an epoch.
    pub fn resume(&mut self, slot: Slot, epoch: Epoch) {
        self.runs = Some(slot);
        if slot == Slot::All {
            self.looks.forget();
        }
        for driven in self.devices.values_mut() {
            driven.counted = false;
            let active = driven.device.active();
            let member = active.and_then(|gang| self.members.get(&gang));
            if driven.open || !member.is_some_and(|member| member.is_in(slot)) {
                continue;
            }
            match driven.device.resume(epoch.get()) {
                Ok(()) => driven.open = true,
                Err(error) => self.trouble = Some(error.to_string()),
            }
        }
    }

    /// Admits a gang to its device, which is created if needed, and writes the ticket of its ranks.
    fn admit(&mut self, gang: u32, devices: &[DeviceSpec]) -> Result<(), DeviceError> {
        let Some(member) = self.members.get(&gang) else {
            return Ok(());
        };
        let Some(placed) = &member.placed else {
            return Ok(());
        };
        let spec = devices.iter().find(|spec| spec.device == placed.device);
        let (Some(spec), true) = (spec, placed.nodes.contains(&self.node.get())) else {
            return Ok(());
        };
        let nodes = placed.nodes.clone();
        let (user, ticket) = (member.spec.user, ticket_of(&member.spec.mark));
        if self.stuck.bars(user) {
            let reason = format!(
                "a rank of user {user} did not leave its network device, so this user gets no device for a minute"
            );
            return Err(DeviceError::NoRoom { gang, reason });
        }
        if !self.devices.contains_key(&spec.device) {
            let driven = self.make(spec)?;
            self.devices.insert(spec.device, driven);
        }
        let Some(driven) = self.devices.get(&spec.device) else {
            return Ok(());
        };
        driven.device.admit(&Gang { gang, nodes })?;
        if let Some(ticket) = &ticket {
            // From an earlier agent that was killed. Files of other users stay: they cannot be
            // removed, or no one who knows the mark made them.
            let _ = std::fs::remove_file(ticket);
            let written = write_ticket(ticket, driven.device.path(), gang, user);
            if let Err(error) = written {
                // No rank can have come yet, so this works.
                let _ = driven.device.dismiss(gang);
                return Err(error);
            }
        }
        if let Some(member) = self.members.get_mut(&gang) {
            (member.admitted, member.ticket) = (true, ticket);
        }
        Ok(())
    }

    fn make(&mut self, spec: &DeviceSpec) -> Result<Driven, DeviceError> {
        let home = match self.home.take() {
            Some(home) => home,
            None => Home::make()?,
        };
        let path = home.path().join(spec.device.to_string());
        self.home = Some(home);
        let addresses = Addresses::default();
        let listen = |key: &DeviceKey| -> io::Result<(Sealed<Udp>, SocketAddr)> {
            let socket = UdpSocket::bind((self.address, 0))?;
            let at = socket.local_addr()?;
            addresses.know(self.node.get(), at);
            let udp = Udp::with_addresses(socket, addresses.clone())?;
            Ok((Sealed::new(udp, key, Arc::clone(&self.forged)), at))
        };
        let listening = spec.key.as_ref().map(listen).transpose();
        let listening = listening.map_err(|source| DeviceError::File {
            action: "bind a socket for",
            path: path.clone(),
            source,
        })?;
        let (way, at) = listening.unzip();
        let own = Uid::own().get();
        let setup = Setup {
            node: self.node.get(),
            gangs: MOST_ON_DEVICE as u32,
            places: spec.places,
            ranks: spec.ranks,
            policy: spec.copying.into(),
            context_bytes: usize::try_from(spec.bytes).unwrap_or(usize::MAX),
            user: (spec.user != own).then_some(spec.user),
            ..Setup::new(path.clone())
        };
        let mut driven = Driven {
            spec: spec.clone(),
            device: Device::new(&setup, way)?,
            addresses,
            at,
            open: false,
            counted: false,
            late: None,
        };
        driven.know(spec, self.node);
        Ok(driven)
    }

    /// Removes a gang. Its ranks fail.
    fn let_go(&mut self, gang: u32) {
        let Some(member) = self.members.remove(&gang) else {
            return;
        };
        self.looks.remove(gang);
        if let Some(ticket) = &member.ticket {
            // Its user may have removed it.
            let _ = std::fs::remove_file(ticket);
        }
        let Some(placed) = member.placed.filter(|_| member.admitted) else {
            return;
        };
        if let Some(driven) = self.devices.get_mut(&placed.device) {
            // The gang is admitted, so this works.
            let _ = driven.device.withdraw(gang);
            if driven.device.active() == Some(gang) {
                driven.stop();
            }
            self.leaving.push((placed.device, gang));
        }
    }

    /// Takes removed gangs off their devices once their ranks have left, and removes devices
    /// without gangs.
    fn sweep(&mut self) {
        let devices = &self.devices;
        self.leaving.retain(|(device, gang)| {
            let dismissed = devices.get(device).map(|d| d.device.dismiss(*gang));
            let within = |error: &DeviceError| matches!(error, DeviceError::Inside { .. });
            matches!(dismissed, Some(Err(error)) if within(&error))
        });
        let (members, leaving) = (&self.members, &self.leaving);
        self.devices.retain(|device, _| {
            let placed = |m: &Member| m.placed.as_ref().is_some_and(|p| p.device == *device);
            members.values().any(placed) || leaving.iter().any(|(of, _)| of == device)
        });
        if self.devices.is_empty() {
            self.home = None;
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let gangs: Vec<u32> = self.members.keys().copied().collect();
        for gang in gangs {
            self.let_go(gang);
        }
    }
}
