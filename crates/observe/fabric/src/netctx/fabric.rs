//! One rank of a gang, on top of its node's device.

use super::device::{Attachment, DeviceError, Doing, RankPort};
use crate::matching::{Messages, Receiving, Sending};
use crate::members::{Chosen, place_among};
use crate::threads::rounds_of;
use crate::{Delivery, Fabric, FabricError, Nodes, PointToPoint, Tag};
use idlewave_sys::host_name;
use idlewave_units::Rank;
use std::time::Duration;

/// Above the tags of the other collectives.
const BARRIER: Tag = Tag(Tag::RESERVED + 16);
/// The most bytes of unexpected messages. A program with more is assumed never to receive them.
const MOST_EARLY: usize = 1 << 30;
/// Pause between polls of a rank that does not participate.
const ASLEEP: Duration = Duration::from_micros(100);
/// Bytes of a host name: Linux allows 64.
const NAME: usize = 64;

/// The name of this host, padded.
fn own_name() -> [u8; NAME] {
    let mut own = [0; NAME];
    for (to, from) in own.iter_mut().zip(host_name().bytes()) {
        *to = from;
    }
    own
}

/// One rank of a gang. If it is dropped while its thread panics, the waits of the gang's other
/// ranks end with [`FabricError::PeerFailed`].
pub struct NetctxFabric {
    port: RankPort,
    messages: Messages,
    /// The participating ranks, if not all participate.
    chosen: Option<Chosen>,
}

impl NetctxFabric {
    fn new(port: RankPort) -> Self {
        let messages = Messages::new(port.size());
        Self {
            port,
            messages,
            chosen: None,
        }
    }

    /// Makes progress on messages and returns whether the gang runs.
    fn progress(&mut self) -> bool {
        let Self { port, messages, .. } = self;
        port.reach(|rings| messages.progress(rings)).1
    }

    fn look(&self) -> Result<(), FabricError> {
        if let Some(error) = self.port.failure() {
            return Err(error);
        }
        match self.messages.early_bytes() {
            bytes if bytes > MOST_EARLY => Err(FabricError::NotReceived { bytes }),
            _ => Ok(()),
        }
    }

    /// One iteration of a wait.
    fn wait(
        &mut self,
        of: usize,
        turn: &mut u32,
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        let runs = self.progress();
        hook();
        self.look()?;
        let awaited = self.messages.awaited(of);
        self.port
            .awaits(awaited.map_or(Doing::Computing, Doing::Waits));
        *turn = turn.saturating_add(1);
        self.port.rest(*turn, runs);
        Ok(())
    }

    fn resolve(&self, rank: Rank) -> Result<Rank, FabricError> {
        Chosen::resolve(self.chosen.as_ref(), rank, self.port.size())
    }
}

impl Attachment {
    /// Attaches this process. With a ticket, waits until it is written, for at most a minute.
    ///
    /// # Errors
    /// There is no such device, or no such rank on it, or another process has that rank.
    pub fn attach(&self) -> Result<NetctxFabric, DeviceError> {
        self.attach_port().map(NetctxFabric::new)
    }

    /// Like [`attach`](Self::attach), for a message layer of one's own.
    ///
    /// # Errors
    /// Those of [`attach`](Self::attach).
    pub fn attach_port(&self) -> Result<RankPort, DeviceError> {
        RankPort::new(self)
    }
}

impl PointToPoint for NetctxFabric {
    type Sending = Sending;
    type Receiving = Receiving;

    fn rank(&self) -> Rank {
        match &self.chosen {
            Some(chosen) => Rank::new(chosen.place),
            None => Rank::new(self.port.rank()),
        }
    }

    fn size(&self) -> u32 {
        match &self.chosen {
            Some(chosen) => chosen.members.len() as u32,
            None => self.port.size(),
        }
    }

    fn start_send(&mut self, to: Rank, tag: Tag, data: Vec<u8>) -> Result<Sending, FabricError> {
        let to = self.resolve(to)?;
        let Self { port, messages, .. } = self;
        Ok(port.reach(|rings| messages.send(rings, to, tag, data)).0)
    }

    fn start_receive(
        &mut self,
        from: Option<Rank>,
        tag: Tag,
        capacity: usize,
        buffer: Vec<u8>,
    ) -> Result<Receiving, FabricError> {
        let from = from.map(|from| self.resolve(from)).transpose()?;
        Ok(self.messages.receive(from, tag, capacity, buffer))
    }

    fn is_sent(&mut self, sending: &Sending) -> Result<bool, FabricError> {
        self.port.tested();
        self.look()?;
        self.progress();
        Ok(self.messages.is_sent(sending))
    }

    fn is_received(&mut self, receiving: &Receiving) -> Result<bool, FabricError> {
        self.port.tested();
        self.look()?;
        self.progress();
        Ok(self.messages.is_received(receiving))
    }

    fn finish_send(
        &mut self,
        sending: Sending,
        hook: &mut impl FnMut(),
    ) -> Result<Vec<u8>, FabricError> {
        let mut turn = 0;
        loop {
            if let Some(data) = self.messages.finish_send(&sending) {
                return Ok(data);
            }
            self.wait(sending.0, &mut turn, hook)?;
        }
    }

    fn finish_receive(
        &mut self,
        receiving: Receiving,
        hook: &mut impl FnMut(),
    ) -> Result<Delivery, FabricError> {
        let mut turn = 0;
        loop {
            if let Some(delivery) = self.messages.finish_receive(&receiving) {
                return Chosen::heard(self.chosen.as_ref(), delivery);
            }
            self.wait(receiving.0, &mut turn, hook)?;
        }
    }
}

impl Fabric for NetctxFabric {
    fn fail(&self) {
        self.port.fail();
    }

    fn nodes(&mut self) -> Result<Nodes, FabricError> {
        let size = self.size();
        let node = |rank| {
            let rank = self.resolve(Rank::new(rank))?;
            Ok(self.port.node_of(rank.get()))
        };
        let nodes: Vec<u32> = (0..size).map(node).collect::<Result<_, FabricError>>()?;
        if nodes.iter().all(|node| *node == nodes[0]) {
            return Ok(Nodes::single(size));
        }
        // The first rank that is on the same node.
        let leader = |node: &u32| nodes.iter().position(|other| other == node);
        let leaders: Vec<u32> = nodes
            .iter()
            .filter_map(leader)
            .map(|rank| rank as u32)
            .collect();
        let own = own_name();
        let mut all = vec![0; own.len() * size as usize];
        self.allgather(&own, &mut all, &mut || ())?;
        let text = |name: &[u8]| {
            let name = String::from_utf8_lossy(name);
            name.trim_end_matches('\0').to_owned()
        };
        let names: Vec<String> = all.chunks_exact(own.len()).map(text).collect();
        Ok(Nodes::from_leaders(&leaders, &names))
    }

    fn with_ranks<R>(
        &mut self,
        members: &[Rank],
        work: impl FnOnce(&mut Self) -> R,
    ) -> Result<Option<R>, FabricError> {
        assert!(self.chosen.is_none(), "already among chosen ranks");
        let place = place_among(members, self.rank(), self.size())?;
        self.barrier(&mut || ())?;
        let Some(place) = place else {
            self.barrier(&mut || std::thread::sleep(ASLEEP))?;
            return Ok(None);
        };
        let members = members.to_vec();
        self.chosen = Some(Chosen { place, members });
        let done = work(self);
        self.chosen = None;
        self.barrier(&mut || ())?;
        Ok(Some(done))
    }

    /// Dissemination, as over threads, but with messages: in round k rank r sends to rank r + 2^k
    /// and receives from rank r - 2^k. One tag is enough: each round of a barrier receives from a
    /// different rank, and messages from one rank keep their order.
    fn barrier(&mut self, hook: &mut impl FnMut()) -> Result<(), FabricError> {
        let (own, size) = (u64::from(self.rank().get()), u64::from(self.size()));
        for round in 0..rounds_of(self.size()) {
            let far = 1 << round;
            let to = Rank::new(((own + far) % size) as u32);
            let from = Rank::new(((own + size - far) % size) as u32);
            self.send_receive(to, Vec::new(), from, BARRIER, 0, Vec::new(), hook)?;
        }
        Ok(())
    }
}

impl Drop for NetctxFabric {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail();
        }
    }
}
