//! One rank of a gang on top of its node's contexts.

use super::node::Node;
use super::transport::Transport;
use super::world::Shared;
use crate::mailbox::Header;
use crate::matching::{Messages, Pieces};
use crate::members::{Chosen, place_among};
use crate::threads::rounds_of;
use crate::{Delivery, Fabric, FabricError, Nodes, Tag};
use idlewave_units::Rank;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Behind those of the other collectives.
const BARRIER: Tag = Tag(Tag::RESERVED + 16);
/// In front of each piece: tag of its message (4 bytes) and length of the message (8).
pub(super) const PREFIX: usize = 12;
/// Turns after which a waiting rank lets another one run.
const TURNS_BEFORE_YIELD: u32 = 16;
/// Between two looks of a rank whose gang does not run, or that takes no part.
const ASLEEP: Duration = Duration::from_micros(100);

/// One rank of a gang. If it is dropped while its thread panics, the waits of the others of its gang end with
/// [`FabricError::PeerFailed`].
pub struct NetctxFabric<T: Transport> {
    shared: Arc<Shared<T>>,
    gang: u32,
    rank: Rank,
    messages: Messages,
    /// The ranks that take part where not all do.
    chosen: Option<Chosen>,
}

/// A send under way.
#[derive(Debug)]
pub struct Sending(usize);

/// A receive under way.
#[derive(Debug)]
pub struct Receiving(usize);

/// A node's active context as the place of one gang's pieces: nothing goes in or out while another gang is active.
struct Place<'a, T> {
    node: &'a mut Node<T>,
    gang: u32,
    frame: Vec<u8>,
}

impl<T: Transport> Pieces for Place<'_, T> {
    fn size(&self) -> u32 {
        self.node.size()
    }

    fn put(&mut self, to: u32, tag: u32, message: u64, rest: &[u8]) -> Option<usize> {
        if self.node.active() != self.gang {
            return None;
        }
        let mut context = self.node.current();
        let mut sender = context.sender(to)?;
        let piece = &rest[..rest.len().min(sender.payload() - PREFIX)];
        if sender.room() == 0 {
            return None;
        }
        self.frame.clear();
        self.frame.extend(tag.to_le_bytes());
        self.frame.extend(message.to_le_bytes());
        self.frame.extend_from_slice(piece);
        let end = piece.len() == rest.len();
        sender.push(&self.frame, end).then_some(piece.len())
    }

    fn take<R>(&mut self, from: u32, read: impl FnOnce(Header, &[u8]) -> R) -> Option<R> {
        if self.node.active() != self.gang {
            return None;
        }
        let mut context = self.node.current();
        let mut receiver = context.receiver(from)?;
        let (content, _) = receiver.front()?;
        // Frames that passed the checks of their channel were put there by `put` of another rank.
        let (prefix, piece) = content.split_first_chunk::<PREFIX>()?;
        let [a, b, c, d, message @ ..] = *prefix;
        let header = Header {
            tag: u32::from_le_bytes([a, b, c, d]),
            message: u64::from_le_bytes(message),
            piece: piece.len() as u32,
        };
        let read = read(header, piece);
        receiver.release();
        Some(read)
    }
}

impl<T: Transport> NetctxFabric<T> {
    pub(super) fn new(shared: &Arc<Shared<T>>, gang: u32, rank: Rank) -> Self {
        Self {
            shared: Arc::clone(shared),
            gang,
            rank,
            messages: Messages::new(shared.size()),
            chosen: None,
        }
    }

    /// Moves messages on, and tells whether the gang runs.
    fn progress(&mut self) -> bool {
        let mut node = self.shared.node(self.rank.get());
        node.listen();
        let mut place = Place {
            node: &mut node,
            gang: self.gang,
            frame: Vec::new(),
        };
        self.messages.progress(&mut place);
        node.speak(self.shared.now());
        node.active() == self.gang
    }

    fn look(&self) -> Result<(), FabricError> {
        // Relaxed: nothing else is read because of it.
        if self.shared.failed[self.gang as usize].load(Ordering::Relaxed) {
            return Err(FabricError::PeerFailed);
        }
        Ok(())
    }

    /// One turn of a wait.
    fn wait(&mut self, turn: &mut u32, hook: &mut impl FnMut()) -> Result<(), FabricError> {
        let runs = self.progress();
        hook();
        self.look()?;
        *turn = turn.wrapping_add(1);
        if !runs {
            std::thread::sleep(ASLEEP);
        } else if *turn % TURNS_BEFORE_YIELD == 0 {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn resolve(&self, rank: Rank) -> Result<Rank, FabricError> {
        Chosen::resolve(self.chosen.as_ref(), rank, self.shared.size())
    }
}

impl<T: Transport> Fabric for NetctxFabric<T> {
    type Sending = Sending;
    type Receiving = Receiving;

    fn rank(&self) -> Rank {
        match &self.chosen {
            Some(chosen) => Rank::new(chosen.place),
            None => self.rank,
        }
    }

    fn size(&self) -> u32 {
        match &self.chosen {
            Some(chosen) => chosen.members.len() as u32,
            None => self.shared.size(),
        }
    }

    fn fail(&self) {
        self.shared.failed[self.gang as usize].store(true, Ordering::Relaxed);
    }

    fn nodes(&mut self) -> Result<Nodes, FabricError> {
        Ok(Nodes::single(self.size()))
    }

    fn with_ranks<R>(
        &mut self,
        members: &[Rank],
        work: impl FnOnce(&mut Self) -> R,
    ) -> Result<Option<R>, FabricError> {
        assert!(self.chosen.is_none(), "already among chosen ranks");
        let place = place_among(members, self.rank, self.size())?;
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

    fn start_send(&mut self, to: Rank, tag: Tag, data: Vec<u8>) -> Result<Sending, FabricError> {
        let to = self.resolve(to)?;
        let mut node = self.shared.node(self.rank.get());
        let mut place = Place {
            node: &mut node,
            gang: self.gang,
            frame: Vec::new(),
        };
        let sending = Sending(self.messages.send(&mut place, to, tag, data));
        node.speak(self.shared.now());
        Ok(sending)
    }

    fn start_receive(
        &mut self,
        from: Option<Rank>,
        tag: Tag,
        capacity: usize,
        buffer: Vec<u8>,
    ) -> Result<Receiving, FabricError> {
        let from = from.map(|from| self.resolve(from)).transpose()?;
        Ok(Receiving(
            self.messages.receive(from, tag, capacity, buffer),
        ))
    }

    fn is_sent(&mut self, sending: &Sending) -> Result<bool, FabricError> {
        self.look()?;
        self.progress();
        Ok(self.messages.is_sent(sending.0))
    }

    fn is_received(&mut self, receiving: &Receiving) -> Result<bool, FabricError> {
        self.look()?;
        self.progress();
        Ok(self.messages.is_received(receiving.0))
    }

    fn finish_send(
        &mut self,
        sending: Sending,
        hook: &mut impl FnMut(),
    ) -> Result<Vec<u8>, FabricError> {
        let mut turn = 0;
        loop {
            if let Some(data) = self.messages.finish_send(sending.0) {
                return Ok(data);
            }
            self.wait(&mut turn, hook)?;
        }
    }

    fn finish_receive(
        &mut self,
        receiving: Receiving,
        hook: &mut impl FnMut(),
    ) -> Result<Delivery, FabricError> {
        let mut turn = 0;
        loop {
            if let Some(delivery) = self.messages.finish_receive(receiving.0) {
                return Chosen::heard(self.chosen.as_ref(), delivery);
            }
            self.wait(&mut turn, hook)?;
        }
    }

    /// Dissemination, as over threads, with messages: in round k rank r tells rank r + 2^k and hears rank r - 2^k. The
    /// rounds of a barrier hear different ranks, and messages of one rank keep their order, so one tag does.
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

impl<T: Transport> Drop for NetctxFabric<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail();
        }
    }
}
