//! Messages of floating-point numbers.

use super::Stopwatch;
use crate::WorkloadError;
use idlewave_fabric::{Fabric, Tag};
use idlewave_units::Rank;

/// A receive under way, and how many numbers it is for.
#[derive(Debug)]
pub struct Incoming<R>(R, usize);

impl<F: Fabric> Stopwatch<'_, F> {
    /// Starts sending numbers. [`flush`](Self::flush) completes it.
    ///
    /// # Errors
    /// Those of the operation, as with all below.
    pub fn send(&mut self, to: Rank, tag: Tag, values: &[f64]) -> Result<(), WorkloadError> {
        let mut bytes = self.buffers.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.reserve_exact(size_of_val(values));
        bytes.extend_from_slice(bytemuck::cast_slice(values));
        let sending = self.start_send(to, tag, bytes)?;
        self.buffers.sending.push(sending);
        Ok(())
    }

    /// Starts receiving exactly `length` numbers.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub fn post(
        &mut self,
        from: Rank,
        tag: Tag,
        length: usize,
    ) -> Result<Incoming<F::Receiving>, WorkloadError> {
        let mut buffer = self.buffers.spare.pop().unwrap_or_default();
        buffer.reserve_exact((8 * length).saturating_sub(buffer.len()));
        let receiving = self.start_receive(from, tag, 8 * length, buffer)?;
        Ok(Incoming(receiving, length))
    }

    /// Waits for a receive and puts its numbers into `values`.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    ///
    /// # Panics
    /// If `values` or the message has another length than was posted: a defect of the benchmark.
    pub fn take(
        &mut self,
        incoming: Incoming<F::Receiving>,
        values: &mut [f64],
    ) -> Result<(), WorkloadError> {
        let bytes = self.finish_receive(incoming.0)?;
        assert_eq!(bytes.len(), 8 * incoming.1, "a message as long as posted");
        bytemuck::cast_slice_mut(values).copy_from_slice(&bytes);
        self.buffers.spare.push(bytes);
        Ok(())
    }

    /// Receives as many numbers as `values` holds.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    ///
    /// # Panics
    /// See [`take`](Self::take).
    pub fn receive(
        &mut self,
        from: Rank,
        tag: Tag,
        values: &mut [f64],
    ) -> Result<(), WorkloadError> {
        let incoming = self.post(from, tag, values.len())?;
        self.take(incoming, values)
    }

    /// Bytes that the longest free buffer has room for.
    #[cfg(test)]
    pub fn longest_buffer(&self) -> usize {
        let room = self.buffers.spare.iter().map(Vec::capacity);
        room.max().unwrap_or(0)
    }

    /// Waits for all sends of numbers.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub fn flush(&mut self) -> Result<(), WorkloadError> {
        for sending in std::mem::take(&mut self.buffers.sending) {
            let bytes = self.finish_send(sending)?;
            self.buffers.spare.push(bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_ranks;

    #[test]
    fn numbers_arrive_to_the_bit_in_the_order_in_which_they_were_sent() {
        let ring = on_ranks(3, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            let rank = watch.rank().get();
            let (next, last) = (Rank::new((rank + 1) % 3), Rank::new((rank + 2) % 3));
            let mut got = [0.0; 2];
            for round in 0..3_u32 {
                let posted = watch.post(last, Tag(1), 2)?;
                watch.send(next, Tag(1), &[f64::from(rank) + 0.1, -0.0])?;
                watch.send(next, Tag(2), &[f64::from(round)])?;
                watch.take(posted, &mut got)?;
                let mut told = [f64::NAN];
                watch.receive(last, Tag(2), &mut told)?;
                assert_eq!(told, [f64::from(round)]);
                watch.flush()?;
            }
            Ok::<_, WorkloadError>((last.get(), got))
        });
        for done in ring {
            let (last, got) = done.expect("no rank fails");
            let sent = [f64::from(last) + 0.1, -0.0];
            assert_eq!(got.map(f64::to_bits), sent.map(f64::to_bits));
        }
    }
}
