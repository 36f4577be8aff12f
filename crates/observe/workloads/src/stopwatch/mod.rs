//! Where a benchmark spends its time on one rank: collectives, point-to-point operations, and the
//! rest.
//!
//! Benchmarks are timed nowhere else. Every operation of the fabric goes through a [`Stopwatch`],
//! which reads CLOCK_MONOTONIC before and after it (20 to 30 ns each).

mod buffers;
mod values;

use buffers::Buffers;
use idlewave_clock::monotonic_ns;
use idlewave_fabric::{Fabric, FabricError, Reduction, Tag};
use idlewave_units::{Bytes, Nanos, Rank};

/// Where the time of one rank went.
///
/// Waiting counts towards the operation in which a rank waits, so the same part means different
/// things on different ranks. The last rank to reach a collective spends little time in it; the
/// others spend the time by which they were early. So parts of several ranks do not add up to parts
/// of the job, and their maxima may come from different ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// From start to end.
    pub total: Nanos,
    /// In collectives, waiting included.
    pub collective: Nanos,
    /// In sends, receives and waits for them.
    pub point_to_point: Nanos,
}

impl Parts {
    /// The rest: what the rank computed, and what interrupted it meanwhile.
    pub const fn computation(&self) -> Nanos {
        self.total
            .saturating_sub(self.collective)
            .saturating_sub(self.point_to_point)
    }
}

/// The most iterations whose ends are kept: 32 MiB.
pub const MOST_ITERATIONS: usize = 1 << 22;

/// The most stretches in calls whose times are kept: 8 MiB.
pub const MOST_STRETCHES: usize = 1 << 19;
/// Calls closer together than this are one stretch: less than 1 % of a call between two nodes, and
/// hardly more than it takes to start one.
const JOINED_NS: u64 = 200;

/// A call to the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// [`Fabric::barrier`].
    Barrier,
    /// [`Fabric::allreduce`].
    Allreduce,
    /// [`Fabric::reduce`].
    Reduce,
    /// [`Fabric::broadcast`].
    Broadcast,
    /// [`Fabric::alltoall`].
    Alltoall,
    /// [`Fabric::alltoallv`].
    Alltoallv,
    /// [`Fabric::allgather`].
    Allgather,
    /// A send, from its start to its completion.
    Send,
    /// A receive, likewise.
    Receive,
}

impl Call {
    /// All calls, in the order of the output.
    pub const ALL: [Self; 9] = [
        Self::Barrier,
        Self::Allreduce,
        Self::Reduce,
        Self::Broadcast,
        Self::Alltoall,
        Self::Alltoallv,
        Self::Allgather,
        Self::Send,
        Self::Receive,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Allreduce => "allreduce",
            Self::Reduce => "reduce",
            Self::Broadcast => "broadcast",
            Self::Alltoall => "alltoall",
            Self::Alltoallv => "alltoallv",
            Self::Allgather => "allgather",
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }

    /// Whether all ranks take part in it.
    pub const fn is_collective(self) -> bool {
        !matches!(self, Self::Send | Self::Receive)
    }
}

/// What a rank did in calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Number of calls.
    pub count: u64,
    /// Bytes that this rank passed to them, or received from them with [`Call::Receive`].
    pub bytes: Bytes,
    /// Time in them, waiting included.
    pub time: Nanos,
}

/// The calls of one rank, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTable([Calls; Call::ALL.len()]);

impl CallTable {
    /// The calls of one kind.
    pub const fn of(&self, call: Call) -> Calls {
        self.0[call as usize]
    }

    /// All kinds that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Call, Calls)> {
        Call::ALL
            .into_iter()
            .map(|call| (call, self.of(call)))
            .filter(|(_, calls)| calls.count > 0)
    }
}

/// A part of a program, and the time a rank spent in it, calls to the fabric included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub name: &'static str,
    /// The time.
    pub time: Nanos,
}

/// One rank's endpoint of a fabric, with a stopwatch.
///
/// Its operations are those of [`Fabric`]; each is timed and counted with its bytes.
pub struct Stopwatch<'a, F: Fabric> {
    fabric: &'a mut F,
    buffers: Buffers<F::Sending>,
    begin: u64,
    calls: CallTable,
    /// Ends of iterations.
    iterations: Vec<u64>,
    regions: Vec<Region>,
    /// The region it is in, as an index, and since when.
    inside: Option<(usize, u64)>,
    /// Begin and end of every stretch in calls.
    stretches: Vec<[u64; 2]>,
}

impl<'a, F: Fabric> Stopwatch<'a, F> {
    /// Starts timing now.
    pub fn start(fabric: &'a mut F) -> Self {
        Self {
            fabric,
            buffers: Buffers::default(),
            begin: monotonic_ns(),
            calls: CallTable::default(),
            iterations: Vec::new(),
            regions: Vec::new(),
            inside: None,
            stretches: Vec::new(),
        }
    }

    /// Forgets everything, makes room for the ends of `iterations`, [`MOST_ITERATIONS`] at most, and
    /// for stretches in calls if there are iterations, and starts again now.
    pub fn restart(&mut self, iterations: usize) {
        self.calls = CallTable::default();
        self.iterations = Vec::with_capacity(iterations.min(MOST_ITERATIONS));
        self.regions.clear();
        self.inside = None;
        // Memory that is never written to is never used.
        self.stretches = Vec::with_capacity(MOST_STRETCHES * usize::from(iterations > 0));
        self.begin = monotonic_ns();
    }

    /// Where the time since the start went.
    pub fn parts(&self) -> Parts {
        let sum = |collective: bool| {
            let those = self
                .calls
                .iter()
                .filter(|(c, _)| c.is_collective() == collective);
            those.map(|(_, calls)| calls.time).sum()
        };
        Parts {
            total: Nanos::from_nanos(monotonic_ns().saturating_sub(self.begin)),
            collective: sum(true),
            point_to_point: sum(false),
        }
    }

    /// Everything since the start. Ends the region it is in.
    pub fn record(&mut self) -> Record {
        let now = monotonic_ns();
        self.leave(now);
        Record {
            parts: self.parts(),
            calls: self.calls,
            begin: self.begin,
            iterations: std::mem::take(&mut self.iterations),
            regions: std::mem::take(&mut self.regions),
            stretches: std::mem::take(&mut self.stretches),
        }
    }

    /// Marks the end of an iteration. Beyond those announced it is not kept.
    pub fn end_iteration(&mut self) {
        if self.iterations.len() < self.iterations.capacity() {
            self.iterations.push(monotonic_ns());
        }
    }

    /// Enters a region, and leaves the one it was in: regions do not nest. About 30 ns.
    pub fn region(&mut self, name: &'static str) {
        let now = monotonic_ns();
        self.leave(now);
        let place = self.regions.iter().position(|r| r.name == name);
        let place = place.unwrap_or_else(|| {
            let time = Nanos::ZERO;
            self.regions.push(Region { name, time });
            self.regions.len() - 1
        });
        self.inside = Some((place, now));
    }

    fn leave(&mut self, now: u64) {
        if let Some((place, since)) = self.inside.take() {
            self.regions[place].time += Nanos::from_nanos(now.saturating_sub(since));
        }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.fabric.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.fabric.size()
    }

    fn timed<T>(
        &mut self,
        call: Call,
        bytes: usize,
        operation: impl FnOnce(&mut F) -> Result<T, FabricError>,
    ) -> Result<T, FabricError> {
        let begin = monotonic_ns();
        let done = operation(self.fabric);
        let end = monotonic_ns();
        let calls = &mut self.calls.0[call as usize];
        calls.count += 1;
        calls.bytes += Bytes::new(bytes as u64);
        calls.time += Nanos::from_nanos(end.saturating_sub(begin));
        self.stretch(begin, end);
        done
    }

    /// Keeps when a call began and ended.
    fn stretch(&mut self, begin: u64, end: u64) {
        let last = self.stretches.last_mut();
        if let Some(last) = last.filter(|last| begin.saturating_sub(last[1]) < JOINED_NS) {
            last[1] = end;
        } else if self.stretches.len() < self.stretches.capacity() {
            self.stretches.push([begin, end]);
        }
    }

    /// The end of a call that is counted already.
    fn ended<T>(
        &mut self,
        call: Call,
        operation: impl FnOnce(&mut F) -> Result<T, FabricError>,
    ) -> Result<T, FabricError> {
        let begin = monotonic_ns();
        let done = operation(self.fabric);
        let end = monotonic_ns();
        self.calls.0[call as usize].time += Nanos::from_nanos(end.saturating_sub(begin));
        self.stretch(begin, end);
        done
    }

    /// [`Fabric::barrier`].
    ///
    /// # Errors
    /// Those of the operation, as with all operations below.
    pub fn barrier(&mut self) -> Result<(), FabricError> {
        self.timed(Call::Barrier, 0, |f| f.barrier(&mut || ()))
    }

    /// [`Fabric::allreduce`].
    ///
    /// # Errors
    /// Those of the operation.
    pub fn allreduce(&mut self, values: &mut [f64], by: Reduction) -> Result<(), FabricError> {
        let bytes = size_of_val(values);
        self.timed(Call::Allreduce, bytes, |f| {
            f.allreduce(values, by, &mut || ())
        })
    }

    /// [`Fabric::reduce`].
    ///
    /// # Errors
    /// Those of the operation.
    pub fn reduce(
        &mut self,
        root: Rank,
        values: &mut [f64],
        by: Reduction,
    ) -> Result<(), FabricError> {
        let bytes = size_of_val(values);
        self.timed(Call::Reduce, bytes, |f| {
            f.reduce(root, values, by, &mut || ())
        })
    }

    /// [`Fabric::broadcast`].
    ///
    /// # Errors
    /// Those of the operation.
    pub fn broadcast(&mut self, root: Rank, data: &mut [u8]) -> Result<(), FabricError> {
        self.timed(Call::Broadcast, data.len(), |f| {
            f.broadcast(root, data, &mut || ())
        })
    }

    /// [`Fabric::alltoall`].
    ///
    /// # Errors
    /// Those of the operation.
    pub fn alltoall(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), FabricError> {
        self.timed(Call::Alltoall, send.len(), |f| {
            f.alltoall(send, receive, &mut || ())
        })
    }

    /// [`Fabric::alltoallv`].
    ///
    /// # Errors
    /// Those of the operation.
    pub fn alltoallv(
        &mut self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<(), FabricError> {
        self.timed(Call::Alltoallv, send.len(), |f| {
            f.alltoallv(send, send_counts, receive, receive_counts, &mut || ())
        })
    }

    /// [`Fabric::allgather`].
    ///
    /// # Errors
    /// Those of the operation.
    pub fn allgather(&mut self, own: &[u8], all: &mut [u8]) -> Result<(), FabricError> {
        self.timed(Call::Allgather, own.len(), |f| {
            f.allgather(own, all, &mut || ())
        })
    }

    /// [`PointToPoint::start_send`](idlewave_fabric::PointToPoint::start_send).
    ///
    /// # Errors
    /// Those of the operation.
    pub fn start_send(
        &mut self,
        to: Rank,
        tag: Tag,
        data: Vec<u8>,
    ) -> Result<F::Sending, FabricError> {
        self.timed(Call::Send, data.len(), |f| f.start_send(to, tag, data))
    }

    /// [`PointToPoint::finish_send`](idlewave_fabric::PointToPoint::finish_send).
    ///
    /// # Errors
    /// Those of the operation.
    pub fn finish_send(&mut self, sending: F::Sending) -> Result<Vec<u8>, FabricError> {
        self.ended(Call::Send, |f| f.finish_send(sending, &mut || ()))
    }

    /// [`PointToPoint::start_receive`](idlewave_fabric::PointToPoint::start_receive).
    ///
    /// # Errors
    /// Those of the operation.
    pub fn start_receive(
        &mut self,
        from: Rank,
        tag: Tag,
        capacity: usize,
        buffer: Vec<u8>,
    ) -> Result<F::Receiving, FabricError> {
        self.timed(Call::Receive, 0, |f| {
            f.start_receive(Some(from), tag, capacity, buffer)
        })
    }

    /// [`PointToPoint::finish_receive`](idlewave_fabric::PointToPoint::finish_receive); the bytes
    /// received.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn finish_receive(&mut self, receiving: F::Receiving) -> Result<Vec<u8>, FabricError> {
        let data = self
            .ended(Call::Receive, |f| f.finish_receive(receiving, &mut || ()))?
            .data;
        self.calls.0[Call::Receive as usize].bytes += Bytes::new(data.len() as u64);
        Ok(data)
    }
}

/// What a [`Stopwatch`] saw on one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Where the time went.
    pub parts: Parts,
    /// Calls by kind.
    pub calls: CallTable,
    /// The start, in nanoseconds of CLOCK_MONOTONIC.
    pub begin: u64,
    /// Ends of the iterations, likewise; of the first [`MOST_ITERATIONS`].
    pub iterations: Vec<u64>,
    /// The regions in the order in which they were first entered.
    pub regions: Vec<Region>,
    /// Begin and end of every stretch in calls, likewise; calls in quick succession are one. Of the
    /// first [`MOST_STRETCHES`].
    pub stretches: Vec<[u64; 2]>,
}

impl Record {
    /// The iterations whose stretches are all kept.
    pub fn whole_iterations(&self) -> usize {
        match self.stretches.last() {
            Some(last) if self.stretches.len() >= MOST_STRETCHES => {
                self.iterations.partition_point(|end| *end <= last[0])
            }
            _ => self.iterations.len(),
        }
    }

    /// Time in calls in each of these iterations.
    pub fn in_calls(&self) -> impl Iterator<Item = Nanos> + '_ {
        let mut next = 0;
        let mut begin = self.begin;
        self.iterations[..self.whole_iterations()]
            .iter()
            .map(move |&end| {
                let mut time = 0;
                while let Some(&[from, to]) = self.stretches.get(next).filter(|s| s[0] < end) {
                    time += to.min(end).saturating_sub(from.max(begin));
                    if to > end {
                        break;
                    }
                    next += 1;
                }
                begin = end;
                Nanos::from_nanos(time)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_bytes_count_for_their_call_and_the_rest_is_computation() {
        let records = crate::testing::on_ranks(2, |fabric| {
            let mut watch = Stopwatch::start(fabric);
            watch.restart(2);
            watch.region("first");
            let peer = Rank::new(1 - watch.rank().get());
            let receiving = watch.start_receive(peer, Tag(1), 16, Vec::new())?;
            let sending = watch.start_send(peer, Tag(1), vec![7; 16])?;
            assert_eq!(watch.finish_receive(receiving)?, [7; 16]);
            watch.finish_send(sending)?;
            watch.end_iteration();
            watch.region("second");
            watch.allreduce(&mut [1.0, 2.0, 3.0], Reduction::Sum)?;
            watch.barrier()?;
            watch.end_iteration();
            watch.region("first");
            Ok::<_, FabricError>(watch.record())
        });
        for record in records {
            let record = record.expect("no rank fails");
            let seen: Vec<_> = record
                .calls
                .iter()
                .map(|(c, n)| (c.name(), n.count, n.bytes.get()))
                .collect();
            assert_eq!(
                seen,
                [
                    ("barrier", 1, 0),
                    ("allreduce", 1, 24),
                    ("send", 1, 16),
                    ("receive", 1, 16)
                ]
            );
            let of = |call| record.calls.of(call).time;
            let parts = record.parts;
            assert_eq!(parts.collective, of(Call::Barrier) + of(Call::Allreduce));
            assert_eq!(parts.point_to_point, of(Call::Send) + of(Call::Receive));
            assert_eq!(
                parts.collective + parts.point_to_point + parts.computation(),
                parts.total
            );
            let names: Vec<_> = record.regions.iter().map(|r| r.name).collect();
            assert_eq!(names, ["first", "second"]);
            assert!(record.regions.iter().map(|r| r.time).sum::<Nanos>() <= parts.total);
            // Calls in a row are one stretch, so there are at most as many as calls.
            let within: u64 = record.stretches.iter().map(|s| s[1] - s[0]).sum();
            assert!(within >= (parts.collective + parts.point_to_point).get());
            assert!(record.stretches.windows(2).all(|s| s[0][1] < s[1][0]));
            assert!(record.begin <= record.iterations[0]);
            assert!(record.iterations[0] <= record.iterations[1]);
        }
    }

    #[test]
    fn stretches_in_calls_are_cut_at_the_ends_of_iterations() {
        let record = Record {
            begin: 100,
            iterations: vec![200, 300, 400],
            stretches: vec![[110, 120], [150, 170], [190, 320], [390, 410]],
            ..Record::default()
        };
        let of: Vec<u64> = record.in_calls().map(Nanos::get).collect();
        assert_eq!(of, [40, 100, 30]);
        assert_eq!(record.whole_iterations(), 3);
        let full = Record {
            stretches: vec![[210, 220]; MOST_STRETCHES],
            ..record
        };
        assert_eq!((full.whole_iterations(), full.in_calls().count()), (1, 1));
    }

    #[test]
    fn computation_is_never_below_zero() {
        let parts = Parts {
            total: Nanos::from_nanos(5),
            collective: Nanos::from_nanos(4),
            point_to_point: Nanos::from_nanos(3),
        };
        assert_eq!(parts.computation(), Nanos::ZERO);
    }
}
