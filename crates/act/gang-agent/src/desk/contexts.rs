//! Gangs with network contexts: where their ranks are, and which gangs share a device.

use super::gang::Gang;
use super::{Desk, DeskError, Job};
use crate::contexts::{
    ContextSeen, ContextSpec, DeviceKey, DeviceSpec, MOST_GANGS, MOST_ON_DEVICE, MOST_RANKS, Placed,
};
use crate::control::Stage;
use crate::ticket::ticket_of;
use idlewave_fabric::netctx::context::{MAX_BYTES, MIN_BYTES};
use idlewave_gang::GangId;
use idlewave_gang::matrix::{Home, RowId};
use idlewave_gang::protocol::Slot;
use idlewave_units::NodeId;
use std::net::SocketAddr;

impl Desk {
    /// Whether the requested contexts are possible.
    pub(super) fn check_contexts(&self, job: &Job) -> Result<(), DeskError> {
        let Some(bytes) = job.contexts else {
            return Ok(());
        };
        let range = MIN_BYTES as u64..=MAX_BYTES as u64;
        let others = self.gangs.values().filter(|g| g.contexts.is_some());
        let refused = |why: String| Err(DeskError::Contexts(why));
        if !range.contains(&bytes) {
            return refused(format!(
                "a context must have {} KiB to {} MiB, not {bytes} bytes; choose another size with --context",
                MIN_BYTES >> 10,
                MAX_BYTES >> 20
            ));
        }
        if others.count() >= MOST_GANGS {
            return refused(format!(
                "there are already {MOST_GANGS} such gangs; wait until some have ended"
            ));
        }
        match ticket_of(&job.mark) {
            Some(_) => Ok(()),
            None => refused(format!("its {} cannot be part of a file name", job.mark)),
        }
    }

    /// Whether a key is needed for the next multi-node device. Without one its gang is not placed.
    pub fn wants_key(&self) -> bool {
        self.spare_key.is_none()
    }

    /// Accepts a key, which is used once.
    pub fn take_key(&mut self, key: DeviceKey) {
        self.spare_key = Some(key);
    }

    /// A node's report on gangs with contexts, and the addresses of its devices.
    pub fn sight_contexts(
        &mut self,
        node: NodeId,
        seen: Vec<ContextSeen>,
        devices: &[(u32, SocketAddr)],
    ) {
        for mut one in seen {
            let id = GangId::new(one.gang);
            one.ranks.truncate(MOST_RANKS as usize);
            one.attached = one.attached.min(MOST_RANKS);
            let contexts = self.gangs.get_mut(&id).and_then(|g| g.contexts.as_mut());
            if let Some(contexts) = contexts {
                one.waits.truncate(MOST_RANKS as usize);
                let before = contexts.seen.get(&node).map_or(0, |seen| seen.attached);
                // Ranks never give up their seats on a device, so this is another device.
                if one.attached < before && contexts.lost.is_none() {
                    contexts.lost = Some(format!(
                        "the agent of node {node} ended, and its network with it"
                    ));
                    self.version += 1;
                }
                contexts.seen.insert(node, one);
                self.place(id);
                self.judge_contexts(id);
            }
        }
        for (device, at) in devices {
            let Some(spec) = self.devices.get_mut(device) else {
                continue;
            };
            let before = spec.at.iter().position(|(of, _)| *of == node);
            match before {
                Some(i) if spec.at[i].1 == *at => continue,
                Some(i) => spec.at[i].1 = *at,
                None => spec.at.push((node, *at)),
            }
            self.version += 1;
        }
    }

    /// A node was silent for too long: gangs with ranks there can neither continue nor be drained
    /// anywhere.
    pub fn lose_contexts(&mut self, node: NodeId) {
        for contexts in self.gangs.values_mut().filter_map(|g| g.contexts.as_mut()) {
            let placed = contexts.placed.as_ref();
            let here = placed.is_some_and(|placed| placed.nodes.contains(&node.get()));
            if here && contexts.lost.is_none() {
                contexts.lost = Some(format!(
                    "node {node} does not respond, and its network is given up"
                ));
                self.version += 1;
            }
        }
    }

    /// Chooses the device of a gang whose ranks have all arrived.
    fn place(&mut self, id: GangId) {
        let Some(gang) = self.gangs.get_mut(&id) else {
            return;
        };
        let (Some(contexts), Some(bytes)) = (&gang.contexts, gang.job.contexts) else {
            return;
        };
        if contexts.placed.is_some() {
            return;
        }
        let nodes = match contexts.nodes() {
            Ok(Some(nodes)) => nodes,
            Ok(None) => return,
            Err(why) => return gang.refused = Some(why),
        };
        let on = |node: &u32| nodes.iter().filter(|other| *other == node).count() as u32;
        let places = nodes.iter().map(on).max().unwrap_or(1).next_power_of_two();
        let ranks = (nodes.len() as u32).next_power_of_two();
        let wanted = DeviceSpec {
            device: self.next_device,
            user: gang.job.user.get(),
            bytes,
            places,
            ranks,
            copying: self.settings.copying,
            key: None,
            at: Vec::new(),
        };
        // If no gang of a device spans several nodes, nothing has to listen.
        let spans = nodes.iter().any(|node| *node != nodes[0]);
        let same = |spec: &&DeviceSpec| {
            let shape = |s: &DeviceSpec| (s.user, s.bytes, s.places, s.ranks);
            let fits = shape(spec) == shape(&wanted) && spec.key.is_some() == spans;
            fits && self.on_device(spec.device) < MOST_ON_DEVICE
        };
        let device = match self.devices.values().find(same) {
            Some(spec) => spec.device,
            None => {
                let key = self.spare_key.take_if(|_| spans);
                if spans && key.is_none() {
                    return;
                }
                self.next_device += 1;
                let device = wanted.device;
                self.devices.insert(device, DeviceSpec { key, ..wanted });
                device
            }
        };
        if let Some(contexts) = self.gangs.get_mut(&id).and_then(|g| g.contexts.as_mut()) {
            contexts.placed = Some(Placed { device, nodes });
            self.version += 1;
        }
    }

    /// Gangs on a device, including those that have just ended: agents may not know yet.
    fn on_device(&self, device: u32) -> usize {
        let placed = self
            .gangs
            .values()
            .filter_map(|g| g.contexts.as_ref()?.placed.as_ref());
        placed.filter(|placed| placed.device == device).count()
    }

    /// Gangs with contexts, for the agents.
    pub fn context_specs(&self) -> Vec<ContextSpec> {
        let alive = self.gangs.iter().filter(|(_, g)| g.stage != Stage::Ended);
        let spec = |(id, gang): (&GangId, &Gang)| {
            let contexts = gang.contexts.as_ref()?;
            Some(ContextSpec {
                gang: id.get(),
                placed: contexts.placed.clone(),
                lost: contexts.lost.is_some(),
            })
        };
        alive.filter_map(spec).collect()
    }

    /// Devices with gangs.
    pub fn devices(&self) -> Vec<DeviceSpec> {
        self.devices.values().cloned().collect()
    }

    /// Removes devices without gangs.
    pub(super) fn sweep_devices(&mut self) {
        let used: Vec<u32> = self.devices.keys().copied().collect();
        let unused = used
            .into_iter()
            .filter(|device| self.on_device(*device) == 0);
        let unused: Vec<u32> = unused.collect();
        for device in unused {
            self.devices.remove(&device);
        }
    }

    /// The gangs with contexts of a row.
    pub fn contexts_of(&self, slot: Slot) -> Vec<GangId> {
        let Slot::Gang(row) = slot else {
            return Vec::new();
        };
        let gangs = self.matrix.running(RowId::new(row.get()));
        let has = |id: &GangId| self.gangs.get(id).is_some_and(|g| g.contexts.is_some());
        gangs.into_iter().filter(has).collect()
    }

    /// Whether everything may run unswitched. Only one gang at a time runs on a device, so gangs
    /// with contexts take turns until they end.
    pub fn lets_all_run(&self) -> bool {
        let has =
            |(id, _): (GangId, &Home)| self.gangs.get(&id).is_some_and(|g| g.contexts.is_some());
        self.draining && !self.matrix.gangs().any(has)
    }
}
