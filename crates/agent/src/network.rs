//! The network devices of a node, driven by its agent: what stops, drains and switches the contexts of gangs that have some.
//!
//! There is a device for each user and size of contexts, in a directory of this agent's own. Of the gangs on a device one is
//! active, and its gate is open while the row of that gang has the CPUs, or while everything runs. Draining sleeps in the thread of the agent,
//! for up to [`LIMIT`]: the device has a thread of its own, which moves frames meanwhile. A device listens only if some of its gangs
//! are on several nodes, and takes what an agent with its key has sent.

mod driven;
mod error;
mod home;
mod looks;
mod sealed;
#[cfg(test)]
mod tests;

use crate::contexts::{
    ContextSeen, ContextSpec, DeviceKey, DeviceSpec, MEMORY, MOST_ON_DEVICE, ticket_of,
};
use crate::parcel::Spec;
use crate::scout::Found;
use driven::{Driven, Member};
pub use error::NetworkError;
use home::Home;
use idlewave_fabric::netctx::device::{Gang, Setup, write_ticket};
use idlewave_fabric::netctx::transport::Addresses;
use idlewave_fabric::netctx::{Counts, Device, DeviceError, Udp};
use idlewave_gang::GangId;
use idlewave_gang::protocol::{Epoch, Slot};
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

/// How long draining may take until it has failed. A rank leaves the device when it next runs: some microseconds, or milliseconds where
/// others want its CPU. Below the protocol's limit.
const LIMIT: Duration = Duration::from_millis(100);
/// For a rank that was about to enter when the gate was closed.
const LEAVE: Duration = Duration::from_millis(5);

/// When it is looked once more for what an agent before this one left: it may have been about to end when this one began.
const AGAIN: Duration = Duration::from_secs(2);

/// All devices of a node.
pub struct Network {
    node: NodeId,
    address: IpAddr,
    home: Option<Home>,
    devices: BTreeMap<u32, Driven>,
    members: BTreeMap<u32, Member>,
    /// Gangs that are gone, by device, whose ranks have not left it.
    leaving: Vec<(u32, u32)>,
    /// Who has the CPUs; `None` while a switch has stopped everything.
    runs: Option<Slot>,
    looks: Looks,
    /// Frames of all devices, also of those that are gone.
    forged: Arc<AtomicU64>,
    trouble: Option<String>,
    /// When it is looked once more for what is left of others.
    sweeps: Option<Instant>,
}

impl Network {
    /// Without any device. Frames of other nodes come to this address.
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
            forged: Arc::default(),
            trouble: None,
            sweeps: Some(Instant::now() + AGAIN),
        }
    }

    /// What went wrong since this was asked last, once.
    pub fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// Stops what is not in the row that runs any more, before its ranks are frozen, perhaps within the device.
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

    /// Takes over which gangs have contexts and where. Ranks of those that are not named any more fail.
    pub fn set(&mut self, gangs: &[Spec], contexts: &[ContextSpec], devices: &[DeviceSpec]) {
        let spec_of = |gang: u32| gangs.iter().find(|spec| spec.gang == gang);
        // Of an earlier controller, with the same number by chance.
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
        // Whoever is still within fails.
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
        // Also one that has just come: ranks that wait for their ticket are to learn of it.
        for context in contexts.iter().filter(|context| context.lost) {
            let device = context.placed.as_ref().map(|placed| placed.device);
            if let Some(driven) = device.and_then(|device| self.devices.get(&device)) {
                // If it is not there, there is none of its ranks that waits.
                let _ = driven.device.fail(context.gang);
            }
        }
    }

    /// Takes what was found of the ranks; true if the controller should hear of it. One that has ended before it was attached is missed by
    /// the others.
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
                // It is there.
                let _ = driven.device.fail(*gang);
            }
        }
        self.seen() != before
    }

    /// What is seen of each gang with contexts.
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

    /// Where frames of each device come to, of those to which some can come.
    pub fn addresses(&self) -> Vec<(u32, SocketAddr)> {
        let at = |(n, driven): (&u32, &Driven)| Some((*n, driven.at?));
        self.devices.iter().filter_map(at).collect()
    }

    /// Frames that were dropped since this began, as nobody with their key made them.
    pub fn forged(&self) -> u64 {
        // Relaxed: a count that nothing else depends on.
        self.forged.load(Ordering::Relaxed)
    }

    /// Lets nobody inject anything.
    pub fn stop(&mut self) {
        self.runs = None;
        for driven in self.devices.values_mut() {
            driven.counted |= driven.open;
            driven.stop();
        }
    }

    /// Sleeps until nothing is under way of what was stopped; gives what its ranks here ever sent and received.
    ///
    /// # Errors
    /// Not within the limit.
    pub fn drain(&self) -> Result<Counts, NetworkError> {
        let end = Instant::now() + LIMIT;
        let mut sum = Counts::default();
        for driven in self.devices.values().filter(|driven| driven.counted) {
            let left = end.saturating_duration_since(Instant::now());
            let drained = driven.device.wait_drained(left);
            if !drained.complete {
                return Err(NetworkError::Drain);
            }
            let active = driven.device.active();
            let failed = active.is_none_or(|gang| driven.device.has_failed(gang).unwrap_or(true));
            // What a gang had under way that failed belongs to nobody.
            if !failed {
                sum.sent += drained.counts.sent;
                sum.received += drained.counts.received;
            }
        }
        Ok(sum)
    }

    /// Refuses unless nothing is under way of what was stopped: a rank may have been frozen just as it was about to enter.
    ///
    /// # Errors
    /// [`NetworkError::Drain`].
    pub fn check_drained(&self) -> Result<(), NetworkError> {
        let mut stopped = self.devices.values().filter(|driven| driven.counted);
        match stopped.all(|driven| driven.device.is_drained()) {
            true => Ok(()),
            false => Err(NetworkError::Drain),
        }
    }

    /// What was stopped is frozen and drained: looks at what its ranks do.
    pub fn look(&mut self) {
        let stopped = self.devices.values().filter(|driven| driven.counted);
        self.looks
            .take(stopped.filter_map(|driven| driven.device.doing()).collect());
    }

    /// Makes the contexts of a row's gangs the active ones, as all nodes are ready to.
    ///
    /// # Errors
    /// A device is missing, or a rank is within one.
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
            driven.device.switch(*gang, LEAVE)?;
        }
        Ok(())
    }

    /// Lets the active contexts of a row be used, or all active ones, in an epoch.
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

    /// Takes a gang to its device, which is made if need be, and writes the ticket of its ranks.
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
        if !self.devices.contains_key(&spec.device) {
            let driven = self.make(spec)?;
            self.devices.insert(spec.device, driven);
        }
        let Some(driven) = self.devices.get(&spec.device) else {
            return Ok(());
        };
        driven.device.admit(&Gang { gang, nodes })?;
        if let Some(ticket) = &ticket {
            // Of an agent before this one, that was killed. Files of others stay: they cannot be removed, or come from nobody who knows the mark.
            let _ = std::fs::remove_file(ticket);
            let written = write_ticket(ticket, driven.device.path(), gang, user);
            if let Err(error) = written {
                // Nobody has come.
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
        let own = crate::own_user();
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
        };
        driven.know(spec, self.node);
        Ok(driven)
    }

    /// Forgets a gang. Its ranks fail.
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
            // It is there.
            let _ = driven.device.withdraw(gang);
            if driven.device.active() == Some(gang) {
                driven.stop();
            }
            self.leaving.push((placed.device, gang));
        }
    }

    /// Takes gangs that are gone off their devices as soon as their ranks have left them, and removes devices without gangs.
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
