//! One rank's messages: sends, receives and unexpected messages.

use crate::piece::{Header, Pieces};
use crate::{Delivery, FabricError, Tag};
use idlewave_units::Rank;
use std::collections::VecDeque;

/// The most memory reserved for an announced message before its bytes arrive.
const AHEAD: usize = 1 << 20;
/// Approximate overhead of an unexpected message beyond its content, bytes.
const BESIDE: usize = 64;

/// A send under way.
#[derive(Debug)]
pub struct Sending(pub(crate) usize);

/// A receive under way.
#[derive(Debug)]
pub struct Receiving(pub(crate) usize);

/// State of one operation. A request holds its index.
#[derive(Debug)]
enum Operation {
    /// A send: `sent` bytes of the message have been put into pieces.
    Send {
        to: u32,
        tag: u32,
        data: Vec<u8>,
        sent: usize,
        begun: bool,
    },
    /// A receive that has matched no message yet.
    Posted {
        from: Option<u32>,
        tag: u32,
        capacity: usize,
        buffer: Vec<u8>,
    },
    /// A receive whose message is arriving.
    Receiving,
    /// A send that is complete.
    Sent(Vec<u8>),
    /// A receive that is complete.
    Received(Result<Delivery, FabricError>),
    /// Free for another operation.
    Free,
}

/// A message arriving, piece by piece, from one source.
#[derive(Debug)]
struct Incoming {
    tag: u32,
    length: usize,
    data: Vec<u8>,
    /// The matching receive and its capacity; `None` while there is none.
    receive: Option<(usize, usize)>,
}

/// What an incomplete operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A message.
    Receive {
        /// The source; `None` for any.
        from: Option<u32>,
        /// The tag of the message.
        tag: u32,
    },
    /// Room for a send.
    Send {
        /// The destination.
        to: u32,
        /// The tag of the message.
        tag: u32,
    },
}

/// The messages of one rank.
#[derive(Debug)]
pub struct Messages {
    operations: Vec<Operation>,
    free: Vec<usize>,
    /// Sends under way, oldest first.
    sends: VecDeque<usize>,
    /// Receives without a message, oldest first.
    posted: VecDeque<usize>,
    /// Unexpected messages, oldest first: source, tag and content.
    early: VecDeque<(u32, u32, Vec<u8>)>,
    /// Memory taken by these and by messages that are arriving without a receive, bytes.
    early_bytes: usize,
    /// Per source: the message that is arriving.
    incoming: Vec<Option<Incoming>>,
}

impl Messages {
    /// For one of `size` ranks.
    pub fn new(size: u32) -> Self {
        Self {
            operations: Vec::new(),
            free: Vec::new(),
            sends: VecDeque::new(),
            posted: VecDeque::new(),
            early: VecDeque::new(),
            early_bytes: 0,
            incoming: (0..size).map(|_| None).collect(),
        }
    }

    fn add(&mut self, operation: Operation) -> usize {
        if let Some(index) = self.free.pop() {
            self.operations[index] = operation;
            return index;
        }
        self.operations.push(operation);
        self.operations.len() - 1
    }

    fn remove(&mut self, index: usize) -> Operation {
        self.free.push(index);
        std::mem::replace(&mut self.operations[index], Operation::Free)
    }

    pub fn send(&mut self, pieces: &mut impl Pieces, to: Rank, tag: Tag, data: Vec<u8>) -> Sending {
        let index = self.add(Operation::Send {
            to: to.get(),
            tag: tag.0,
            data,
            sent: 0,
            begun: false,
        });
        self.sends.push_back(index);
        self.push_sends(pieces);
        Sending(index)
    }

    pub fn receive(
        &mut self,
        from: Option<Rank>,
        tag: Tag,
        capacity: usize,
        buffer: Vec<u8>,
    ) -> Receiving {
        let from = from.map(Rank::get);
        let early = self
            .early
            .iter()
            .position(|(s, t, _)| *t == tag.0 && from.is_none_or(|f| f == *s));
        if let Some(early) = early.and_then(|e| self.early.remove(e)) {
            self.early_bytes -= early.2.len() + BESIDE;
            let received = Operation::Received(deliver(early.0, early.2, capacity));
            return Receiving(self.add(received));
        }
        let index = self.add(Operation::Posted {
            from,
            tag: tag.0,
            capacity,
            buffer,
        });
        // A message with this tag may already be arriving.
        let begun = self
            .incoming
            .iter()
            .enumerate()
            .find_map(|(source, incoming)| {
                let i = incoming.as_ref()?;
                let fits = i.receive.is_none()
                    && i.tag == tag.0
                    && from.is_none_or(|f| f as usize == source);
                fits.then_some(source)
            });
        match begun.and_then(|source| self.incoming[source].as_mut()) {
            Some(incoming) => {
                incoming.receive = Some((index, capacity));
                self.early_bytes -= incoming.data.len() + BESIDE;
                self.operations[index] = Operation::Receiving;
            }
            None => self.posted.push_back(index),
        }
        Receiving(index)
    }

    /// Moves every message as far as possible without waiting.
    pub fn progress(&mut self, pieces: &mut impl Pieces) {
        if !self.sends.is_empty() {
            self.push_sends(pieces);
        }
        let any = self
            .posted
            .iter()
            .any(|&p| matches!(self.operations[p], Operation::Posted { from: None, .. }));
        if any {
            for source in 0..pieces.size() {
                self.pull(pieces, source);
            }
            return;
        }
        let mut next = 0;
        while let Some(&index) = self.posted.get(next) {
            if let Operation::Posted {
                from: Some(source), ..
            } = self.operations[index]
            {
                self.pull(pieces, source);
            }
            // If this receive was matched, the next one has moved into its place.
            if self.posted.get(next) == Some(&index) {
                next += 1;
            }
        }
        for source in 0..self.incoming.len() {
            if self.incoming[source].is_some() {
                self.pull(pieces, source as u32);
            }
        }
    }

    /// Puts pieces of the sends under way into `pieces`, in order for each destination.
    fn push_sends(&mut self, pieces: &mut impl Pieces) {
        let mut blocked: Vec<u32> = Vec::new();
        let mut next = 0;
        while let Some(&index) = self.sends.get(next) {
            let Operation::Send {
                to,
                tag,
                data,
                sent,
                begun,
            } = &mut self.operations[index]
            else {
                self.sends.remove(next);
                continue;
            };
            let mut whole = *begun && *sent == data.len();
            while !whole && !blocked.contains(to) {
                let Some(taken) = pieces.put(*to, *tag, data.len() as u64, &data[*sent..]) else {
                    blocked.push(*to);
                    break;
                };
                *begun = true;
                *sent += taken;
                whole = *sent == data.len();
            }
            if whole {
                let data = std::mem::take(data);
                self.operations[index] = Operation::Sent(data);
                self.sends.remove(next);
            } else {
                next += 1;
            }
        }
    }

    /// Takes all pieces that have arrived from one source.
    fn pull(&mut self, pieces: &mut impl Pieces, source: u32) {
        let s = source as usize;
        loop {
            let Messages {
                incoming,
                operations,
                posted,
                early_bytes,
                ..
            } = self;
            let whole = pieces.take(source, |header, piece| {
                let begun = incoming[s].is_some();
                let message =
                    incoming[s].get_or_insert_with(|| begin(operations, posted, source, header));
                if message.receive.is_none() {
                    *early_bytes += piece.len() + if begun { 0 } else { BESIDE };
                }
                piece.append_to(0, usize::MAX, &mut message.data);
                message.data.len() >= message.length
            });
            match whole {
                None => return,
                Some(true) => self.complete(source),
                Some(false) => {}
            }
        }
    }

    fn complete(&mut self, source: u32) {
        let Some(message) = self.incoming[source as usize].take() else {
            return;
        };
        match message.receive {
            Some((index, capacity)) => {
                self.operations[index] =
                    Operation::Received(deliver(source, message.data, capacity));
            }
            None => self.early.push_back((source, message.tag, message.data)),
        }
    }

    /// Memory taken by messages without a receive, bytes.
    pub fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// What an operation waits for; `None` if it is complete, or if this rank still has something
    /// to move: pieces of another send, or a message that is arriving.
    pub fn awaited(&self, index: usize) -> Option<Awaited> {
        let elsewhere = |own: Option<u32>| {
            self.sends.iter().any(|send| match &self.operations[*send] {
                Operation::Send { to, .. } => Some(*to) != own,
                _ => false,
            })
        };
        match &self.operations[index] {
            Operation::Posted { from, tag, .. } if !elsewhere(None) => Some(Awaited::Receive {
                from: *from,
                tag: *tag,
            }),
            Operation::Send { to, tag, .. } if !elsewhere(Some(*to)) => {
                Some(Awaited::Send { to: *to, tag: *tag })
            }
            _ => None,
        }
    }

    pub fn is_sent(&self, sending: &Sending) -> bool {
        matches!(self.operations[sending.0], Operation::Sent(_))
    }

    pub fn is_received(&self, receiving: &Receiving) -> bool {
        matches!(self.operations[receiving.0], Operation::Received(_))
    }

    /// The buffer of a complete send; `None` if it is not complete.
    pub fn finish_send(&mut self, sending: &Sending) -> Option<Vec<u8>> {
        if !self.is_sent(sending) {
            return None;
        }
        match self.remove(sending.0) {
            Operation::Sent(data) => Some(data),
            _ => None,
        }
    }

    /// The delivery of a complete receive; `None` if it is not complete.
    pub fn finish_receive(
        &mut self,
        receiving: &Receiving,
    ) -> Option<Result<Delivery, FabricError>> {
        if !self.is_received(receiving) {
            return None;
        }
        match self.remove(receiving.0) {
            Operation::Received(delivery) => Some(delivery),
            _ => None,
        }
    }
}

/// Starts a message at its first piece: finds the oldest receive that matches.
fn begin(
    operations: &mut [Operation],
    posted: &mut VecDeque<usize>,
    source: u32,
    header: Header,
) -> Incoming {
    let matches = |index: &usize| match &operations[*index] {
        Operation::Posted { from, tag, .. } => {
            *tag == header.tag && from.is_none_or(|f| f == source)
        }
        _ => false,
    };
    let place = posted.iter().position(matches);
    let receive = place.and_then(|p| posted.remove(p)).and_then(|index| {
        match std::mem::replace(&mut operations[index], Operation::Receiving) {
            Operation::Posted {
                capacity,
                mut buffer,
                ..
            } => {
                buffer.clear();
                Some((index, capacity, buffer))
            }
            _ => None,
        }
    });
    let (receive, data) = match receive {
        Some((index, capacity, buffer)) => (Some((index, capacity)), buffer),
        None => (
            None,
            Vec::with_capacity((header.message as usize).min(AHEAD)),
        ),
    };
    Incoming {
        tag: header.tag,
        length: header.message as usize,
        data,
        receive,
    }
}

fn deliver(source: u32, data: Vec<u8>, capacity: usize) -> Result<Delivery, FabricError> {
    let from = Rank::new(source);
    if data.len() > capacity {
        return Err(FabricError::TooLong {
            from,
            length: Some(data.len()),
            capacity,
        });
    }
    Ok(Delivery { from, data })
}
