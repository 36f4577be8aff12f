//! The fabric over MPI.

use super::job::{Job, ThreadLevel};
use super::operation::{Lent, Receiving, Request, Sending, place, place_mut};
use crate::members::place_among;
use crate::{Delivery, Fabric, FabricError, Nodes, PointToPoint, Reduction, Tag, Waiting, Waits};
use idlewave_mpi::{RawHandle, Search, Slot};
use idlewave_units::{CpuSet, Rank};
use std::ffi::c_int;
use std::time::Duration;

/// Iterations of a wait after which a rank that shares its CPU yields it.
const TURNS_BEFORE_YIELD: u32 = 64;
/// The longest sleep of a rank that does not take part.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// This process as a rank of an MPI job. It stays on the thread that started it. Dropping it
/// finalises MPI; dropping it in a panic ends the whole job.
///
/// The library does the reductions: the result is the same on all ranks and in every run with the
/// same ranks in the same places, as the MPI standard recommends (4.1, 6.9.1) and the libraries in
/// use do.
#[derive(Debug)]
pub struct MpiFabric {
    pub(super) job: Job,
    pub(super) communicator: RawHandle,
    rank: u32,
    size: u32,
    pub(super) waits: Waits,
    waiting: Waiting,
    /// Whether this is currently a world of chosen ranks.
    divided: bool,
}

impl MpiFabric {
    /// Opens the site's library, calls `MPI_Init` and finds this process's rank.
    ///
    /// # Errors
    /// See [`Job::begin`].
    pub fn begin(search: &Search) -> Result<Self, FabricError> {
        Self::begin_with_threads(search, ThreadLevel::Single)
    }

    /// [`begin`](Self::begin) with a promise about threads.
    ///
    /// # Errors
    /// See [`Job::begin`].
    pub fn begin_with_threads(search: &Search, level: ThreadLevel) -> Result<Self, FabricError> {
        let job = Job::begin(search, level)?;
        let communicator = job.handles.world;
        let (rank, size) = job.place_in(communicator)?;
        let mut fabric = Self {
            job,
            communicator,
            rank,
            size,
            waits: Waits::Watched,
            waiting: Waiting::Yield,
            divided: false,
        };
        fabric.waiting = fabric.suitable_waiting()?;
        Ok(fabric)
    }

    /// The job: library, thread level, abort.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// How watched waits wait. [`begin`](Self::begin) chooses: they yield if this node has more
    /// ranks than CPUs.
    pub fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Sets how watched waits wait.
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    fn suitable_waiting(&mut self) -> Result<Waiting, FabricError> {
        let nodes = self.nodes()?;
        let own = nodes.of_rank(Rank::new(self.rank));
        let here = own.map_or(1, |node| nodes.ranks_of(node).count());
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let online = online.and_then(|text| text.trim().parse::<CpuSet>().ok());
        let cpus = match online {
            Some(set) => set.iter().count(),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        Ok(if here > cpus {
            Waiting::Yield
        } else {
            Waiting::Spin
        })
    }

    fn check_rank(&self, rank: Rank) -> Result<c_int, FabricError> {
        if rank.get() < self.size {
            return Ok(rank.get() as c_int);
        }
        Err(FabricError::NoSuchRank {
            rank,
            size: self.size,
        })
    }

    pub(super) fn root(&self, root: Rank) -> Result<c_int, FabricError> {
        self.check_rank(root)
    }

    /// Waits for a request, calling the hook on every iteration.
    fn watch(&self, request: &Request, hook: &mut impl FnMut()) {
        let mut turn = 0_u32;
        while !request.test(&self.job) {
            hook();
            turn = turn.wrapping_add(1);
            if self.waiting == Waiting::Yield && turn % TURNS_BEFORE_YIELD == 0 {
                std::thread::yield_now();
            }
        }
    }

    fn finish(&self, request: &Request, hook: &mut impl FnMut()) {
        match self.waits {
            Waits::Watched => self.watch(request, hook),
            Waits::Blocking => request.wait(&self.job),
        }
    }

    /// Completes a collective that uses the caller's memory.
    pub(super) fn complete(
        &self,
        call: &'static str,
        slot: Slot,
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        let guard = EndIfUnwound(&self.job);
        let request = Request::new(slot);
        self.watch(&request, hook);
        std::mem::forget(guard);
        request.end(&self.job, call)
    }

    /// A barrier for ranks with nothing to do: they sleep, and test now and then.
    fn sleep_until_all_are_here(&self) -> Result<(), FabricError> {
        let request = self.start_barrier()?;
        let mut pause = Duration::from_millis(1);
        while !request.test(&self.job) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_SLEEP);
        }
        request.end(&self.job, "MPI_Ibarrier")
    }

    fn start_barrier(&self) -> Result<Request, FabricError> {
        let mut slot = Slot::default();
        // SAFETY: the communicator belongs to this job, the slot to this frame.
        let result = unsafe { (self.job.calls.ibarrier)(self.communicator, &mut slot) };
        self.job.check("MPI_Ibarrier", result)?;
        Ok(Request::new(slot))
    }

    /// Splits off the ranks that pass a place, which becomes their rank in the new communicator;
    /// returns `None` on the others.
    fn split(&self, place: Option<u32>) -> Result<Option<RawHandle>, FabricError> {
        let colour = place.map_or(self.job.abi.undefined, |_| 0);
        let key = place.unwrap_or(0) as c_int;
        let mut slot = Slot::default();
        // SAFETY: the communicator belongs to this job, the slot to this frame.
        let result =
            unsafe { (self.job.calls.comm_split)(self.communicator, colour, key, &mut slot) };
        self.job.check("MPI_Comm_split", result)?;
        let handle = self.job.handle_in(slot);
        Ok((handle != self.job.handles.comm_null).then_some(handle))
    }

    fn free(&self, communicator: RawHandle) -> Result<(), FabricError> {
        let mut slot = Slot(communicator);
        // SAFETY: this object created the communicator, and nothing is under way on it.
        let result = unsafe { (self.job.calls.comm_free)(&mut slot) };
        self.job.check("MPI_Comm_free", result)
    }

    /// The lowest rank that shares memory with this one.
    fn leader(&self) -> Result<u32, FabricError> {
        let (job, mut slot) = (&self.job, Slot::default());
        // SAFETY: the handles belong to this job, the slot to this frame.
        let result = unsafe {
            (job.calls.comm_split_type)(
                self.communicator,
                job.abi.comm_type_shared,
                self.rank as c_int,
                job.handles.info_null,
                &mut slot,
            )
        };
        job.check("MPI_Comm_split_type", result)?;
        let shared = job.handle_in(slot);
        let mut leader = self.rank.to_ne_bytes();
        // SAFETY: the buffer belongs to this frame and has the four bytes given as its length.
        let result = unsafe {
            (job.calls.bcast)(leader.as_mut_ptr().cast(), 4, job.handles.byte, 0, shared)
        };
        job.check("MPI_Bcast", result)?;
        self.free(shared)?;
        Ok(u32::from_ne_bytes(leader))
    }
}

/// Ends the job if a hook panics while the library still uses memory of the frames that are being
/// unwound.
struct EndIfUnwound<'a>(&'a Job);

impl Drop for EndIfUnwound<'_> {
    fn drop(&mut self) {
        self.0.abort(101);
    }
}

/// The number of elements of `of` bytes in a buffer, as the `int` that MPI takes.
pub(super) fn count(bytes: usize, of: usize) -> Result<c_int, FabricError> {
    c_int::try_from(bytes / of).map_err(|_| FabricError::TooLarge { bytes })
}

/// Bytes exchanged per host name.
const HOST_BYTES: usize = 256;

impl PointToPoint for MpiFabric {
    type Sending = Sending;
    type Receiving = Receiving;

    fn rank(&self) -> Rank {
        Rank::new(self.rank)
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn start_send(&mut self, to: Rank, tag: Tag, data: Vec<u8>) -> Result<Sending, FabricError> {
        let (to, length) = (self.check_rank(to)?, count(data.len(), 1)?);
        let (job, mut slot) = (&self.job, Slot::default());
        // SAFETY: the buffer has `length` bytes and is not touched or freed before the request is
        // complete.
        let result = unsafe {
            let data = place(&data);
            let (byte, tag) = (job.handles.byte, tag.0 as c_int);
            (job.calls.isend)(data, length, byte, to, tag, self.communicator, &mut slot)
        };
        job.check("MPI_Isend", result)?;
        Ok(Sending(Lent {
            request: Request::new(slot),
            buffer: data,
        }))
    }

    fn start_receive(
        &mut self,
        from: Option<Rank>,
        tag: Tag,
        capacity: usize,
        mut buffer: Vec<u8>,
    ) -> Result<Receiving, FabricError> {
        let from = match from {
            Some(rank) => self.check_rank(rank)?,
            None => self.job.abi.any_source,
        };
        let length = count(capacity, 1)?;
        buffer.clear();
        buffer.reserve(capacity);
        let (job, mut slot) = (&self.job, Slot::default());
        // SAFETY: the buffer has room for `length` bytes and is not touched or freed before the
        // request is complete.
        let result = unsafe {
            let data = match capacity {
                0 => place_mut::<u8>(&mut []),
                _ => buffer.as_mut_ptr().cast(),
            };
            let (byte, tag) = (job.handles.byte, tag.0 as c_int);
            (job.calls.irecv)(data, length, byte, from, tag, self.communicator, &mut slot)
        };
        job.check("MPI_Irecv", result)?;
        let request = Request::new(slot);
        Ok(Receiving {
            lent: Lent { request, buffer },
            capacity,
        })
    }

    fn is_sent(&mut self, sending: &Sending) -> Result<bool, FabricError> {
        Ok(sending.0.request.test(&self.job))
    }

    fn is_received(&mut self, receiving: &Receiving) -> Result<bool, FabricError> {
        Ok(receiving.lent.request.test(&self.job))
    }

    fn finish_send(
        &mut self,
        sending: Sending,
        hook: &mut impl FnMut(),
    ) -> Result<Vec<u8>, FabricError> {
        self.finish(&sending.0.request, hook);
        sending.0.request.end(&self.job, "MPI_Isend")?;
        Ok(sending.0.take())
    }

    fn finish_receive(
        &mut self,
        receiving: Receiving,
        hook: &mut impl FnMut(),
    ) -> Result<Delivery, FabricError> {
        self.finish(&receiving.lent.request, hook);
        receiving.deliver(&self.job)
    }
}

impl Fabric for MpiFabric {
    fn fail(&self) {
        self.job.abort(1);
    }

    fn set_waits(&mut self, waits: Waits) {
        self.waits = waits;
    }

    fn nodes(&mut self) -> Result<Nodes, FabricError> {
        let mut own = [0_u8; 4 + HOST_BYTES];
        own[..4].copy_from_slice(&self.leader()?.to_ne_bytes());
        let host = self.job.processor_name()?;
        let kept = host.len().min(HOST_BYTES);
        own[4..4 + kept].copy_from_slice(&host.as_bytes()[..kept]);
        let mut all = vec![0; own.len() * self.size as usize];
        self.allgather(&own, &mut all, &mut || ())?;
        let (mut leaders, mut hosts) = (Vec::new(), Vec::new());
        for one in all.chunks_exact(own.len()) {
            let (leader, host) = one.split_at(4);
            let mut bytes = [0; 4];
            bytes.copy_from_slice(leader);
            leaders.push(u32::from_ne_bytes(bytes));
            let host = String::from_utf8_lossy(host);
            hosts.push(host.trim_end_matches('\0').to_owned());
        }
        Ok(Nodes::from_leaders(&leaders, &hosts))
    }

    fn with_ranks<T>(
        &mut self,
        members: &[Rank],
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<Option<T>, FabricError> {
        assert!(!self.divided, "already among chosen ranks");
        let place = place_among(members, Rank::new(self.rank), self.size)?;
        let Some((part, own)) = self.split(place)?.zip(place) else {
            self.sleep_until_all_are_here()?;
            return Ok(None);
        };
        let world = (self.communicator, self.rank, self.size);
        (self.communicator, self.rank, self.size) = (part, own, members.len() as u32);
        self.divided = true;
        let waits = self.waits;
        let done = work(self);
        // The ranks that slept still have this setting, and blocking collectives do not match
        // non-blocking ones.
        self.waits = waits;
        self.divided = false;
        (self.communicator, self.rank, self.size) = world;
        self.free(part)?;
        self.sleep_until_all_are_here()?;
        Ok(Some(done))
    }

    fn barrier(&mut self, hook: &mut impl FnMut()) -> Result<(), FabricError> {
        if self.waits == Waits::Blocking {
            // SAFETY: the communicator belongs to this job.
            let result = unsafe { (self.job.calls.barrier)(self.communicator) };
            return self.job.check("MPI_Barrier", result);
        }
        let request = self.start_barrier()?;
        self.watch(&request, hook);
        request.end(&self.job, "MPI_Ibarrier")
    }

    fn allreduce(
        &mut self,
        values: &mut [f64],
        reduction: Reduction,
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        self.combine_all(values, reduction, hook)
    }

    fn reduce(
        &mut self,
        root: Rank,
        values: &mut [f64],
        reduction: Reduction,
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        self.combine(root, values, reduction, hook)
    }

    fn broadcast(
        &mut self,
        root: Rank,
        data: &mut [u8],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        self.spread(root, data, hook)
    }

    fn alltoall(
        &mut self,
        send: &[u8],
        receive: &mut [u8],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        self.exchange_all(send, receive, hook)
    }

    fn alltoallv(
        &mut self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        self.exchange_blocks(send, send_counts, receive, receive_counts, hook)
    }

    fn allgather(
        &mut self,
        own: &[u8],
        all: &mut [u8],
        hook: &mut impl FnMut(),
    ) -> Result<(), FabricError> {
        self.gather_all(own, all, hook)
    }
}
