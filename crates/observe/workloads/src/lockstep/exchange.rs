//! The exchange with the neighbours, in its variants.

use super::message::{HEADER, Header, NO_END};
use super::pattern::Pattern;
use crate::WorkloadError;
use idlewave_fabric::{Fabric, Tag};
use idlewave_run::{Decomposition, ExchangeVariant, Link};
use idlewave_units::Rank;

/// Buffers that move back and forth between rank and fabric.
pub struct Exchange<F: Fabric> {
    variant: ExchangeVariant,
    bytes: usize,
    diameter: u64,
    /// In pairs: down and up along each dimension.
    links: Vec<Link>,
    to_send: Vec<Vec<u8>>,
    to_fill: Vec<Vec<u8>>,
    sending: Vec<F::Sending>,
    receiving: Vec<F::Receiving>,
}

/// Tag of messages sent over a link in this direction.
fn tag(direction: u32) -> Tag {
    Tag(1 + direction)
}

impl<F: Fabric> Exchange<F> {
    pub fn new(fabric: &F, pattern: &Pattern) -> Result<Self, WorkloadError> {
        let grid = Decomposition::of_sides(&pattern.sides, fabric.size());
        let grid = grid.ok_or_else(|| WorkloadError::WrongSides {
            sides: pattern.sides.clone(),
            ranks: fabric.size(),
        })?;
        let bytes = pattern.bytes.max(HEADER);
        let links = grid.links(fabric.rank().get());
        let buffers = || links.iter().map(|_| vec![0x5a; bytes]).collect();
        Ok(Self {
            variant: pattern.variant,
            bytes,
            diameter: u64::from(grid.diameter()),
            to_send: buffers(),
            to_fill: buffers(),
            sending: Vec::with_capacity(links.len()),
            receiving: Vec::with_capacity(links.len()),
            links,
        })
    }

    pub fn variant(&self) -> ExchangeVariant {
        self.variant
    }

    pub fn diameter(&self) -> u64 {
        self.diameter
    }

    /// Does the first exchange, which creates connections and mailboxes, before the measurement.
    pub fn prepare(&mut self, fabric: &mut F) -> Result<(), WorkloadError> {
        self.start(fabric, NO_END, NO_END)?;
        self.finish(fabric, NO_END, NO_END, &mut || ())?;
        Ok(())
    }

    /// Starts all receives, then all sends.
    #[inline]
    pub fn start(
        &mut self,
        fabric: &mut F,
        iteration: u64,
        last: u64,
    ) -> Result<(), WorkloadError> {
        for (link, buffer) in self.links.iter().zip(&mut self.to_fill) {
            let (from, tag) = (Rank::new(link.rank), tag(link.direction ^ 1));
            let buffer = std::mem::take(buffer);
            let started = fabric.start_receive(Some(from), tag, self.bytes, buffer)?;
            self.receiving.push(started);
        }
        let sender = fabric.rank();
        for (link, buffer) in self.links.iter().zip(&mut self.to_send) {
            let way = link.direction;
            let mut message = std::mem::take(buffer);
            let header = Header {
                last,
                iteration,
                sender,
                way,
            };
            header.write(&mut message);
            let started = fabric.start_send(Rank::new(link.rank), tag(way), message)?;
            self.sending.push(started);
        }
        Ok(())
    }

    /// Waits for everything started; returns the last iteration, as far as it is known by now.
    #[inline]
    fn finish(
        &mut self,
        fabric: &mut F,
        iteration: u64,
        mut last: u64,
        hook: &mut impl FnMut(),
    ) -> Result<u64, WorkloadError> {
        for (i, receiving) in self.receiving.drain(..).enumerate() {
            let delivery = fabric.finish_receive(receiving, hook)?;
            let link = self.links[i];
            let (from, way) = (Rank::new(link.rank), link.direction ^ 1);
            last = last.min(Header::checked(&delivery.data, iteration, from, way)?);
            self.to_fill[i] = delivery.data;
        }
        for (i, sending) in self.sending.drain(..).enumerate() {
            self.to_send[i] = fabric.finish_send(sending, hook)?;
        }
        Ok(last)
    }

    /// The exchange after the computation, or the part of it that is left.
    #[inline]
    pub fn meet(
        &mut self,
        fabric: &mut F,
        iteration: u64,
        last: u64,
        hook: &mut impl FnMut(),
    ) -> Result<u64, WorkloadError> {
        match self.variant {
            ExchangeVariant::NonBlocking => self.start(fabric, iteration, last)?,
            ExchangeVariant::Overlapped => {}
            ExchangeVariant::Blocking => return self.one_by_one(fabric, iteration, last, hook),
        }
        self.finish(fabric, iteration, last, hook)
    }

    fn one_by_one(
        &mut self,
        fabric: &mut F,
        iteration: u64,
        last: u64,
        hook: &mut impl FnMut(),
    ) -> Result<u64, WorkloadError> {
        let (sender, mut told) = (fabric.rank(), last);
        for i in 0..self.links.len() {
            // While sending up, receive from below, and vice versa.
            let (link, opposite) = (self.links[i], self.links[i ^ 1]);
            let way = link.direction;
            let mut message = std::mem::take(&mut self.to_send[i]);
            let header = Header {
                last,
                iteration,
                sender,
                way,
            };
            header.write(&mut message);
            let from = Rank::new(opposite.rank);
            let (message, delivery) = fabric.send_receive(
                Rank::new(link.rank),
                message,
                from,
                tag(way),
                self.bytes,
                std::mem::take(&mut self.to_fill[i]),
                hook,
            )?;
            told = told.min(Header::checked(&delivery.data, iteration, from, way)?);
            self.to_send[i] = message;
            self.to_fill[i] = delivery.data;
        }
        Ok(told)
    }
}
