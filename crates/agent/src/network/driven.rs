//! One device of a node, and one gang with contexts, as their agent knows them.

use super::sealed::Sealed;
use crate::contexts::{DeviceSpec, Placed};
use crate::parcel::Spec;
use idlewave_fabric::netctx::transport::Addresses;
use idlewave_fabric::netctx::{Device, Udp};
use idlewave_gang::protocol::Slot;
use idlewave_units::NodeId;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A device with what is known of it.
pub(super) struct Driven {
    pub(super) spec: DeviceSpec,
    pub(super) device: Device<Option<Sealed<Udp>>>,
    pub(super) addresses: Addresses,
    /// Where it listens; `None`: nothing goes between nodes.
    pub(super) at: Option<SocketAddr>,
    /// Whether the active gang may use it.
    pub(super) open: bool,
    /// Whether it was open when everything was stopped last: its frames are counted.
    pub(super) counted: bool,
}

/// A gang with contexts.
pub(super) struct Member {
    pub(super) spec: Spec,
    pub(super) placed: Option<Placed>,
    /// Whether it is on its device.
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
        if let (Some(gang), true) = (self.device.active(), self.open) {
            // It is there.
            let _ = self.device.stop(gang);
        }
        self.open = false;
    }

    pub(super) fn know(&mut self, spec: &DeviceSpec, own: NodeId) {
        for (node, at) in spec.at.iter().filter(|(node, _)| *node != own) {
            self.addresses.know(node.get(), *at);
        }
        self.spec.at.clone_from(&spec.at);
    }
}
