//! The steps of one rank.

use super::Halo;
use super::block::Block;
use super::links::{Face, TRAILER};
use super::wave::Wave;
use crate::stopwatch::Stopwatch;
use crate::{Verified, WorkloadError};
use idlewave_fabric::{Fabric, Reduction, Tag, Waits};
use std::sync::atomic::{AtomicBool, Ordering};

const TAG: u32 = 410;
/// Values range from -1 to 1; a sweep rounds by 1e-16 and damps earlier rounding errors.
const TOLERANCE: f64 = 1e-12;
/// The most progress reports of a run.
const TOLD: u32 = 200;

fn tag(face: &Face, upwards: bool) -> Tag {
    Tag(TAG + 2 * face.dimension as u32 + u32::from(upwards))
}

/// A rank at work.
pub(super) struct Worker<'a> {
    halo: &'a Halo,
    pub(super) block: Block,
    wave: Wave,
    faces: Vec<Face>,
    /// Dimensions in which the rank is its own neighbour.
    wrapped: Vec<usize>,
    /// A message each way for every face.
    outgoing: Vec<Vec<u8>>,
    incoming: Vec<Vec<u8>>,
    /// Sweeps since the wave was set.
    sweeps: u32,
    /// The last step, as far as this rank knows.
    last: u64,
    /// The largest deviation from the expected value so far.
    off: f64,
}

impl<'a> Worker<'a> {
    pub fn new<F: Fabric>(halo: &'a Halo, fabric: &F) -> Self {
        let (rank, ranks) = (fabric.rank(), fabric.size());
        let faces = halo.faces(ranks, rank);
        let sides = halo.sides(ranks);
        let wave = Wave::new(halo, ranks);
        let mut block = Block::new(halo, ranks, rank.get());
        block.set(&wave);
        let message = |face: &Face| Vec::with_capacity(face.bytes.get() as usize);
        Self {
            halo,
            block,
            wave,
            wrapped: (0..3).filter(|&d| halo.periodic && sides[d] == 1).collect(),
            outgoing: faces.iter().map(message).collect(),
            incoming: faces.iter().map(message).collect(),
            faces,
            sweeps: 0,
            last: u64::from(halo.steps) - 1,
            off: 0.0,
        }
    }

    /// Sends all faces and fills all borders.
    fn exchange<F: Fabric>(&mut self, watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        let mut receives = Vec::with_capacity(self.faces.len());
        let mut sends = Vec::with_capacity(self.faces.len());
        for (face, buffer) in self.faces.iter().zip(self.incoming.drain(..)) {
            let capacity = face.bytes.get() as usize;
            // The neighbour sends it in the opposite direction.
            let tag = tag(face, !face.upwards);
            receives.push(watch.start_receive(face.rank, tag, capacity, buffer)?);
        }
        for (face, mut bytes) in self.faces.iter().zip(self.outgoing.drain(..)) {
            bytes.clear();
            self.block
                .put_face(face.dimension, face.upwards, &mut bytes);
            bytes.extend_from_slice(&self.last.to_le_bytes());
            let tag = tag(face, face.upwards);
            sends.push(watch.start_send(face.rank, tag, bytes)?);
        }
        for &dimension in &self.wrapped {
            self.block.wrap(dimension);
        }
        for (face, receiving) in self.faces.iter().zip(receives) {
            let data = watch.finish_receive(receiving)?;
            let (cells, trailer) = data.split_at(data.len().saturating_sub(TRAILER));
            self.block.take_face(face.dimension, face.upwards, cells);
            if let Ok(last) = trailer.try_into() {
                self.last = self.last.min(u64::from_le_bytes(last));
            }
            self.incoming.push(data);
        }
        for sending in sends {
            self.outgoing.push(watch.finish_send(sending)?);
        }
        Ok(())
    }

    /// Compares all own cells with their expected values.
    fn compare(&mut self) {
        let off = self.block.distance(&self.wave, self.wave.left(self.sweeps));
        self.off = self.off.max(off);
    }

    /// One step.
    pub fn step<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        step: u64,
        largest: f64,
    ) -> Result<(), WorkloadError> {
        if self.sweeps == self.wave.lifetime {
            watch.region("new wave");
            self.compare();
            self.block.set(&self.wave);
            self.sweeps = 0;
        }
        watch.region("exchange");
        self.exchange(watch)?;
        watch.region("sweep");
        self.block.sweep();
        self.sweeps += 1;
        let every = u64::from(self.halo.residual_every);
        if every > 0 && (step + 1) % every == 0 {
            watch.region("residual");
            let mut change = [self.block.change()];
            watch.allreduce(&mut change, Reduction::Max)?;
            let off = (change[0] - self.wave.change(largest, self.sweeps)).abs();
            self.off = self.off.max(off);
        }
        Ok(())
    }

    /// Memory in use now.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        let messages = self.outgoing.iter().chain(&self.incoming);
        self.block.held() + messages.map(Vec::capacity).sum::<usize>()
    }
}

impl Halo {
    /// Runs on all ranks of the fabric; `progress` gets the share done, 0 to 1. If `halt` is set on
    /// rank 0, all ranks end after the same step; its number travels with the faces.
    ///
    /// # Errors
    /// The size is not possible or the result is wrong (the same on all ranks), or another rank
    /// failed.
    pub fn run<F: Fabric>(
        &self,
        fabric: &mut F,
        halt: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Verified, WorkloadError> {
        self.check().map_err(|reason| WorkloadError::WrongSize {
            benchmark: format!("halo:{self}"),
            reason,
        })?;
        let mut worker = Worker::new(self, fabric);
        // Blocking library calls, as real programs make them.
        fabric.set_waits(Waits::Blocking);
        let done = self.timed(fabric, &mut worker, halt, progress);
        fabric.set_waits(Waits::Watched);
        done
    }

    pub(super) fn timed<F: Fabric>(
        &self,
        fabric: &mut F,
        worker: &mut Worker<'_>,
        halt: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Verified, WorkloadError> {
        let (ranks, leads) = (fabric.size(), fabric.rank().get() == 0);
        let far = u64::from(self.diameter(ranks));
        let mut watch = Stopwatch::start(fabric);
        let mut largest = [worker.block.largest()];
        watch.allreduce(&mut largest, Reduction::Max)?;
        watch.barrier()?;
        watch.restart(self.steps as usize);
        let mut step = 0;
        let told = u64::from(self.steps.div_ceil(TOLD));
        while step <= worker.last {
            if leads && halt.load(Ordering::Relaxed) {
                worker.last = worker.last.min(step + far);
            }
            worker.step(&mut watch, step, largest[0])?;
            step += 1;
            watch.end_iteration();
            if step % told == 0 {
                progress(step as f64 / f64::from(self.steps));
            }
        }
        let timed = watch.record();
        watch.restart(0);
        let checksum = self.verify(&mut watch, worker)?;
        Ok(Verified {
            timed,
            verification: watch.parts(),
            verified: true,
            iterations: step,
            operations: step * self.cells_of_all(ranks),
            checksum: Some(checksum),
        })
    }

    fn cells_of_all(&self, ranks: u32) -> u64 {
        let own: u64 = self.cells.iter().map(|&c| u64::from(c)).product();
        own * u64::from(ranks)
    }

    /// The checksum of all cells, if their values are right.
    fn verify<F: Fabric>(
        &self,
        watch: &mut Stopwatch<'_, F>,
        worker: &mut Worker<'_>,
    ) -> Result<u64, WorkloadError> {
        worker.compare();
        let mut off = [worker.off];
        watch.allreduce(&mut off, Reduction::Max)?;
        let mut all = vec![0; 8 * watch.size() as usize];
        let own = worker.block.checksum().to_le_bytes();
        watch.allgather(&own, &mut all)?;
        if off[0] > TOLERANCE {
            return Err(WorkloadError::NotVerified {
                benchmark: format!("halo:{self}"),
                what: format!("a cell is {:.1e} off, more than {TOLERANCE:.0e}", off[0]),
            });
        }
        let sums = all.chunks_exact(8).map(|raw| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(raw);
            u64::from_le_bytes(bytes)
        });
        Ok(sums.fold(0, u64::wrapping_add))
    }
}
