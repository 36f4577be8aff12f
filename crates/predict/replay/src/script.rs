//! What every rank did, in order: computation between calls, messages posted and completed,
//! collectives.
//!
//! Time zero is when the first rank left MPI_Init. Each rank computes until it leaves its own
//! MPI_Init, and ends when it enters MPI_Finalize or when its last call ends. A call that neither
//! sends nor completes a message, and is not a collective that can be resolved, counts as
//! computation. On request, the time that a call took beyond the cost of its messages, counted from
//! when those it waited for had arrived, becomes computation after the call. Every call then ends
//! in the schedule when it did in the run.
//!
//! Memory: that of [`Recorded`], 14 bytes per message end, 4 per call, 48 per collective, and the
//! script of one rank at a time: 64 bytes per call and 36 per message end of that rank.

use crate::ReplayError;
use idlewave_explain::Crowd;
use idlewave_explain::program::{Call, Recorded, overlap, taken_from};
use idlewave_explain::watch::Charge;
use idlewave_run::tables::{Bursts, Calls, OperationClass as Class, Table};
use idlewave_run::{Ledger, RunReader};
use idlewave_simulate::collectives::{Algorithms, Call as Collective, Kind, Step};
use idlewave_simulate::goal::Parameters;
use idlewave_units::{Bytes, Rank};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;

/// What becomes of the time that others took from a rank while it computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taken {
    /// It is not work; a noise model puts it back. Without the kernel's view, it is unknown what
    /// was taken, and all time counts as work.
    #[default]
    Removed,
    /// It counts as work: the run as it was.
    Kept,
}

/// A message end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub sends: bool,
    pub peer: u32,
    pub tag: u32,
    pub bytes: u64,
    /// When its send was posted, nanoseconds of the run's clock.
    pub sent: u64,
}

/// Index into `Script::collectives`.
pub(crate) type CollectiveId = u32;

/// A collective that can be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Played {
    pub call: Collective,
    /// Index into [`Script::members`].
    pub comm: u32,
    pub tag: u32,
    /// When the member that the others wait for (the last one, or the root) arrived, nanoseconds of
    /// the run's clock.
    released: u64,
}

/// A call that communicates, with the computation before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    /// Thread number within its rank.
    pub lane: u8,
    /// Computation on that thread since the previous activity, nanoseconds.
    pub work: u64,
    /// Start and end of the call, nanoseconds from time zero.
    pub span: (u64, u64),
    /// Row of the table `calls`.
    pub row: u32,
    /// Index into `RankScript::posts`.
    pub posts: Range<u32>,
    /// Index into `RankScript::completed`.
    pub completed: Range<u32>,
    pub collective: Option<CollectiveId>,
    /// Excess of the call over the cost of its messages, nanoseconds; 0 unless requested.
    pub excess: u64,
}

/// What a rank did.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankScript {
    pub activities: Vec<Activity>,
    pub posts: Vec<Post>,
    /// Indices into `posts`.
    pub completed: Vec<u32>,
    /// Computation of each thread after its last call that communicates, nanoseconds.
    pub rest: Vec<u64>,
    /// When it ended, nanoseconds from time zero.
    pub end: u64,
    /// Its total work, nanoseconds.
    pub worked: u64,
    /// Time taken from it while it computed, nanoseconds.
    pub taken: u64,
}

/// A recorded program, ready to be read rank by rank.
#[derive(Debug)]
pub(crate) struct Script {
    pub recorded: Recorded,
    /// Number of ranks.
    pub ranks: u32,
    pub left_out: Ledger,
    pub collectives: Vec<Played>,
    /// Members of each communicator, in its order.
    pub members: Vec<Vec<u32>>,
    /// What others took from each lane; empty where the kernel was not traced.
    charges: Vec<Vec<Charge>>,
    /// Nodes whose ranks shared CPUs.
    pub crowds: Vec<Crowd>,
    /// The collective of each instance, if it can be resolved.
    of_instance: Vec<Option<CollectiveId>>,
    /// All matched ends, sorted: rank, row, and twice the pair plus the side (1: receives).
    ends: Vec<(u32, u32, u32)>,
    /// Tag of every pair.
    tags: Vec<u32>,
    origin: u64,
    pub taken: Taken,
    /// The costs that the excess of calls is measured against, and how collectives are resolved for
    /// that.
    pub excess_over: Option<(Parameters, Algorithms)>,
}

/// Lane and index of a call.
type Place = (u32, u32);

impl Script {
    pub fn read(run: &RunReader, taken: Taken) -> Result<Script, ReplayError> {
        let mut left_out = Ledger::default();
        let Some(recorded) = Recorded::read(run, &mut left_out)? else {
            return Err(ReplayError::NoProgram(run.path().to_owned()));
        };
        let (charges, crowds) = taken_from(run, &recorded)?;
        left_out.enter(
            "runs without the kernel's view, or whose view was not decoded yet",
            u64::from(run.table_if_present::<Bursts>()?.is_none()),
            "nothing is known to be taken from ranks: all of their time outside of calls is work",
            "explain the run first; record with the rights to trace",
        );
        let program = &recorded.program;
        let ranks = program
            .of_rank
            .keys()
            .map(|r| r.get() + 1)
            .max()
            .unwrap_or(0);
        let begins = program.lanes.iter().filter_map(|lane| {
            let init = lane
                .calls
                .iter()
                .find(|c| is_life(&recorded, c, "MPI_Init"));
            init.map(|c| c.end)
        });
        let origin = begins.min().unwrap_or(recorded.phase.0);
        let mut script = Script {
            ranks,
            left_out,
            collectives: Vec::new(),
            members: Vec::new(),
            charges,
            crowds,
            of_instance: Vec::new(),
            ends: Vec::new(),
            tags: Vec::new(),
            origin,
            taken,
            excess_over: None,
            recorded,
        };
        let tags = script.find_ends();
        script.find_collectives(run, tags)?;
        Ok(script)
    }

    /// How a collective of the program is played; `None` if it is not resolved.
    pub fn collective_of(&self, instance: usize) -> Option<&Played> {
        let id = (*self.of_instance.get(instance)?)?;
        self.collectives.get(id as usize)
    }

    /// The calls that posted and completed a message end.
    fn places(&self, pair: u32, receives: bool) -> Option<(Place, Option<Place>)> {
        let (program, matched) = (&self.recorded.program, &self.recorded.matched);
        let (s, r) = matched.pairs[pair as usize];
        let end = match receives {
            false => &matched.sends[s as usize],
            true => &matched.receives[r as usize],
        };
        let lane = &program.lanes[end.lane as usize];
        let posted = lane.call_at(end.posted)?;
        let completed = end.wait.and_then(|wait| {
            let at = |l: u32| Some((l, program.lanes[l as usize].call_at(wait.get())?));
            let rank = if receives { end.to } else { end.from };
            at(end.lane).or_else(|| program.of_rank.get(&rank)?.iter().find_map(|&l| at(l)))
        });
        if receives && completed.is_none() {
            return None;
        }
        // A probe right before the receive already waited for the message.
        let own = (end.lane, posted);
        let probe = posted.checked_sub(1).filter(|&before| {
            let name = program.name(program.call(end.lane, before));
            receives && completed == Some(own) && matches!(name, "MPI_Probe" | "MPI_Mprobe")
        });
        Some(match probe {
            Some(probe) => ((end.lane, probe), Some((end.lane, probe))),
            None => (own, completed),
        })
    }

    /// Lists the message ends of each rank; returns the number of tags.
    fn find_ends(&mut self) -> u32 {
        let mut channels: BTreeMap<(u32, i32), u32> = BTreeMap::new();
        let pairs = self.recorded.matched.pairs.len() as u32;
        let mut without_call = 0;
        for pair in 0..pairs {
            let (s, r) = self.recorded.matched.pairs[pair as usize];
            let (send, receive) = (
                self.recorded.matched.sends[s as usize],
                self.recorded.matched.receives[r as usize],
            );
            let next = channels.len() as u32;
            let tag = *channels.entry((send.comm, send.tag)).or_insert(next);
            self.tags.push(tag);
            if self.places(pair, false).is_none() || self.places(pair, true).is_none() {
                without_call += 1;
                continue;
            }
            self.ends.push((send.from.get(), send.row, 2 * pair));
            self.ends
                .push((receive.to.get(), receive.row, 2 * pair + 1));
        }
        self.ends.sort_unstable();
        self.left_out.enter(
            "messages whose calls were not recorded",
            without_call,
            "they are not played, and the time of their calls that are there counts as computation",
            "check whether calls were lost",
        );
        channels.len() as u32
    }

    fn find_collectives(&mut self, run: &RunReader, first_tag: u32) -> Result<(), ReplayError> {
        let sizes = self.sizes(run)?;
        let program = &self.recorded.program;
        let mut comms: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut unknown, mut as_barrier) = (BTreeMap::<&str, u64>::new(), 0);
        for (instance, &(sent, received)) in program.instances.iter().zip(&sizes) {
            let (lane, call) = program.members_of(instance)[0];
            let name = program.name(program.call(lane, call));
            let kind = match (instance.class, Kind::of(name)) {
                (Class::Other | Class::StartCollective | Class::Neighbour, _) => None,
                (_, Some(kind)) => Some(kind),
                // As far as the recording shows, all wait for all.
                (Class::AllToAll, None) => {
                    as_barrier += 1;
                    Some(Kind::Barrier)
                }
                (_, None) => None,
            };
            let Some((kind, ranks)) = kind.zip(program.communicators.get(&instance.comm)) else {
                *unknown.entry(name).or_default() += 1;
                self.of_instance.push(None);
                continue;
            };
            let next = self.members.len() as u32;
            let comm = *comms.entry(instance.comm).or_insert(next);
            if comm == next {
                let mut members: Vec<(u32, u32)> =
                    ranks.iter().map(|(r, &m)| (m, r.get())).collect();
                members.sort_unstable();
                self.members
                    .push(members.into_iter().map(|m| m.1).collect());
            }
            let members = &self.members[comm as usize];
            let root = instance.root.map_or(0, Rank::get);
            let calls = program.members_of(instance);
            let root_call = calls
                .iter()
                .find(|c| program.lanes[c.0 as usize].rank.get() == root);
            let released = match (instance.class, root_call) {
                (Class::FromRoot, Some(&(lane, call))) => program.call(lane, call).begin,
                _ => instance.last_enter,
            };
            let root = members.iter().position(|&r| r == root).unwrap_or(0) as u32;
            let rooted = matches!(
                kind,
                Kind::Broadcast | Kind::Reduce | Kind::Gather | Kind::Scatter
            );
            self.of_instance.push(Some(self.collectives.len() as u32));
            self.collectives.push(Played {
                call: Collective {
                    kind,
                    members: members.len() as u32,
                    root: if rooted { root } else { 0 },
                    piece: kind.piece(members.len() as u32, sent, received),
                },
                comm,
                tag: first_tag + comm,
                released,
            });
        }
        for (name, count) in unknown {
            self.left_out.enter(
                format!("{name}, collectives that are not resolved"),
                count,
                "their time counts as computation of each member",
                "nothing: who waits for whom in them is not recorded, or not on all members",
            );
        }
        self.left_out.enter(
            "calls that make communicators",
            as_barrier,
            "each is played as a barrier of its members",
            "nothing",
        );
        Ok(())
    }

    /// The most bytes that any member sent and received, for each instance.
    fn sizes(&self, run: &RunReader) -> Result<Vec<(u64, u64)>, ReplayError> {
        let program = &self.recorded.program;
        let mut of_row: Vec<u32> = Vec::new();
        for call in program.lanes.iter().flat_map(|l| &l.calls) {
            let row = call.row as usize;
            if of_row.len() <= row {
                of_row.resize(row + 1, 0);
            }
            of_row[row] = call.instance.map_or(0, |i| i.get());
        }
        let mut sizes = vec![(0, 0); program.instances.len()];
        let Some(mut reader) = run.table_if_present::<Calls>()? else {
            return Ok(sizes);
        };
        let (mut batch, mut row) = (Calls::default(), 0);
        while {
            batch.clear();
            reader.next_into(&mut batch)?
        } {
            for (sent, received) in batch.sent.iter().zip(&batch.received) {
                let instance = of_row.get(row).copied().unwrap_or(0);
                row += 1;
                if let Some(size) = (instance as usize).checked_sub(1).map(|i| &mut sizes[i]) {
                    let (s, r) = (sent.map_or(0, Bytes::get), received.map_or(0, Bytes::get));
                    *size = (size.0.max(s), size.1.max(r));
                }
            }
        }
        Ok(sizes)
    }

    /// Work in a stretch of a lane, and the time taken from it.
    fn work(&self, lane: u32, begin: u64, end: u64) -> (u64, u64) {
        let length = end.saturating_sub(begin);
        match (self.taken, self.charges.get(lane as usize)) {
            (Taken::Removed, Some(charges)) if length > 0 => {
                let taken = overlap(charges, begin, end).min(length);
                (length - taken, taken)
            }
            _ => (length, 0),
        }
    }

    /// What a rank did.
    pub fn rank(&self, rank: u32) -> RankScript {
        let program = &self.recorded.program;
        let mut out = RankScript::default();
        let none = Vec::new();
        let lanes = program.of_rank.get(&Rank::new(rank)).unwrap_or(&none);
        let (posted, completed) = self.of_rank(rank, &mut out.posts);
        let mut calls: Vec<(u64, u32, u32)> = Vec::new();
        for &lane in lanes {
            let own = program.lanes[lane as usize].calls.iter().enumerate();
            calls.extend(own.map(|(i, c)| (c.begin, lane, i as u32)));
        }
        calls.sort_unstable();
        let mut threads: Vec<Thread> = lanes.iter().map(|_| Thread::new(self.origin)).collect();
        let mut finalized = None;
        for (_, lane, index) in calls {
            let thread = &mut threads[(lane - lanes[0]) as usize];
            let call = program.call(lane, index);
            let (work, taken) = self.work(lane, thread.until, call.begin);
            thread.work += work;
            out.taken += taken;
            thread.until = call.end.max(self.origin);
            if is_life(&self.recorded, call, "MPI_Init") {
                // The time from when the first rank left MPI_Init until this one did, whatever it
                // did meanwhile.
                (thread.work, out.taken) = (call.end - self.origin.min(call.end), 0);
                continue;
            }
            if is_life(&self.recorded, call, "MPI_Finalize") {
                finalized = Some(call.begin);
                continue;
            }
            let collective = (call.instance).and_then(|i| self.of_instance[i.get() as usize - 1]);
            let posts = of_call(&posted, (lane, index));
            let done = of_call(&completed, (lane, index));
            let only_posts_receives = posts.clone().all(|p| !out.posts[p.1 as usize].sends)
                && done.clone().next().is_none();
            if collective.is_none() && only_posts_receives {
                let (work, taken) = self.work(lane, call.begin, call.end);
                thread.work += work;
                out.taken += taken;
                if posts.clone().next().is_none() {
                    continue;
                }
            }
            let (from, begin) = (out.completed.len() as u32, call.begin);
            let first = posts.clone().next().map_or(0, |p| p.1);
            let posts = first..first + posts.count() as u32;
            out.completed.extend(done.map(|d| d.1));
            out.worked += thread.work;
            let done = &out.completed[from as usize..];
            let excess = self.excess(call, rank, &out.posts, posts.clone(), done, collective);
            out.activities.push(Activity {
                lane: (lane - lanes[0]).min(u8::MAX.into()) as u8,
                work: std::mem::take(&mut thread.work),
                span: (
                    begin.saturating_sub(self.origin),
                    call.end.saturating_sub(self.origin),
                ),
                row: call.row,
                posts,
                completed: from..out.completed.len() as u32,
                collective,
                excess,
            });
        }
        let last = threads.iter().map(|t| t.until).max();
        out.end = finalized
            .or(last)
            .unwrap_or(self.origin)
            .saturating_sub(self.origin);
        out.rest = threads.iter().map(|t| t.work).collect();
        out.worked += out.rest.iter().sum::<u64>();
        out
    }

    /// How much later a call ended than it had to.
    fn excess(
        &self,
        call: &Call,
        rank: u32,
        posts: &[Post],
        own: Range<u32>,
        done: &[u32],
        collective: Option<CollectiveId>,
    ) -> u64 {
        let Some((costs, algorithms)) = &self.excess_over else {
            return 0;
        };
        let overhead = costs.overhead.get();
        let time = |bytes: u64| {
            let more = bytes.saturating_sub(1);
            let byte = costs.gap_per_byte.cost(more).unwrap_or(u64::MAX);
            let byte = byte.max(costs.overhead_per_byte.cost(more).unwrap_or(u64::MAX));
            (costs.latency.get() + 2 * overhead).saturating_add(byte)
        };
        let mut end = call.begin;
        for index in own {
            end += if posts[index as usize].sends {
                overhead
            } else {
                0
            };
        }
        for post in done
            .iter()
            .map(|&i| &posts[i as usize])
            .filter(|p| !p.sends)
        {
            end = end.max(post.sent.saturating_add(time(post.bytes)));
        }
        if let Some(played) = collective.map(|id| &self.collectives[id as usize]) {
            let members = &self.members[played.comm as usize];
            let member = members.iter().position(|&r| r == rank).unwrap_or(0);
            let steps = played.call.steps(member as u32, algorithms);
            // A round ends with its longest message.
            let longest = |s: &Step| s.from.iter().chain(&s.to).map(|m| m.1).max();
            let all = steps.iter().filter_map(longest).map(time);
            end = all.fold(end.max(played.released), u64::saturating_add);
        }
        call.end.saturating_sub(end)
    }

    /// The message ends of a rank in posting order, listed by the calls that posted them and by
    /// those that completed them.
    #[allow(clippy::type_complexity)]
    fn of_rank(&self, rank: u32, posts: &mut Vec<Post>) -> (Vec<(Place, u32)>, Vec<(Place, u32)>) {
        let first = self.ends.partition_point(|e| e.0 < rank);
        let own = self.ends[first..].iter().take_while(|e| e.0 == rank);
        let matched = &self.recorded.matched;
        let mut found: Vec<(Place, Option<Place>, Post)> = Vec::new();
        for &(_, _, end) in own {
            let (pair, receives) = (end / 2, end % 2 == 1);
            let Some((posted, completed)) = self.places(pair, receives) else {
                continue;
            };
            let (s, r) = matched.pairs[pair as usize];
            let send = &matched.sends[s as usize];
            let peer = if receives { send.from } else { send.to };
            let post = Post {
                sends: !receives,
                peer: peer.get(),
                tag: self.tags[pair as usize],
                bytes: matched.receives[r as usize].bytes,
                sent: send.posted,
            };
            found.push((posted, completed, post));
        }
        // Stable sort: the ends of one call stay in row order.
        found.sort_by_key(|f| f.0);
        let (mut posted, mut completed) = (Vec::new(), Vec::new());
        for (index, (by, at, post)) in found.into_iter().enumerate() {
            posted.push((by, index as u32));
            completed.extend(at.map(|at| (at, index as u32)));
            posts.push(post);
        }
        completed.sort_unstable();
        (posted, completed)
    }

    /// The times of a message; `None` if its receive was never waited for or completed.
    pub fn message(&self, pair: usize) -> Option<Message> {
        let matched = &self.recorded.matched;
        let (s, r) = matched.pairs[pair];
        let (send, receive) = (&matched.sends[s as usize], &matched.receives[r as usize]);
        let program = &self.recorded.program;
        let error = program.clock_error(send.lane, receive.lane);
        let starts = program.lanes[send.lane as usize].call_at(send.posted);
        let starts = starts.map(|index| program.call(send.lane, index));
        let send_took = starts
            .filter(|call| program.class(call) == Class::Send)
            .map(|call| call.end - call.begin);
        Some(Message {
            bytes: receive.bytes,
            sent: send.posted,
            waited: receive.wait.map(NonZeroU64::get)?,
            received: receive.completed.map(NonZeroU64::get)?,
            send_took,
            to_itself: send.from == send.to,
            clock_error: error,
        })
    }
}

/// Times of a message, nanoseconds of the run's clock.
pub(crate) struct Message {
    pub bytes: u64,
    pub sent: u64,
    pub waited: u64,
    pub received: u64,
    /// Length of the call that started the send, if it did nothing else.
    pub send_took: Option<u64>,
    pub to_itself: bool,
    pub clock_error: u64,
}

/// A thread of the rank being read.
struct Thread {
    /// Its time is accounted for up to here.
    until: u64,
    work: u64,
}

impl Thread {
    fn new(origin: u64) -> Self {
        Thread {
            until: origin,
            work: 0,
        }
    }
}

fn is_life(recorded: &Recorded, call: &Call, begins: &str) -> bool {
    let program = &recorded.program;
    program.class(call) == Class::Life && program.name(call).starts_with(begins)
}

/// Entries of a call in a list sorted by call.
fn of_call(all: &[(Place, u32)], call: Place) -> impl Iterator<Item = &(Place, u32)> + Clone {
    let first = all.partition_point(|e| e.0 < call);
    all[first..].iter().take_while(move |e| e.0 == call)
}
