//! Collectives and the bytes that each moves by definition.
//!
//! The bytes follow from the definition of the function, whatever the algorithm: what a member
//! contributes and what ends up in its receive buffer, including its own part. MPI_IN_PLACE
//! changes where the own part lies, not the amounts. In an intercommunicator the amounts are those
//! sent to and received from the remote group.

use crate::abi::Family;
use crate::call::Call;
use crate::communicators::{self, Comm, Neighbours};
use crate::library::{Kind, Library, call as mpi};
use crate::page::class;
use crate::requests::{self, What};
use crate::ring::flags;
use crate::table::{How, Shape};
use crate::thread::Thread;
use crate::{Details, state, world, write_call};

/// What one member sends and receives.
#[derive(Default)]
struct Amount {
    sent: u64,
    received: u64,
    /// World rank plus 1.
    root: u32,
    unknown: bool,
}

/// The part that a member plays in a collective with a root.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Root,
    Other,
    /// In the root's group of an intercommunicator, but not the root.
    None,
}

/// A blocking collective.
pub fn collective(call: &mut Call, thread: &mut Thread, shape: Shape) {
    let details = prepare(call, thread, shape);
    if let Some(page) = call.page.filter(|_| call.want.number != 0) {
        // A separate write entered the call a moment ago: this is the same wait.
        let writing = state::write(page);
        state::waits_for(call, &writing, &call.want);
    }
    call.run();
    let _ended = state::ended(call);
    write_call(call, thread, details);
}

/// A non-blocking collective: the request is the last argument.
pub fn start(call: &mut Call, thread: &mut Thread, shape: Shape) {
    let mut details = prepare(call, thread, shape);
    call.run();
    if !call.failed() {
        let last = call.arguments.len() - 1 - usize::from(call.fortran());
        let what = What::Collective(call.kept.take());
        details.request = requests::started(call, last, what) + 1;
    }
    write_call(call, thread, details);
}

fn prepare(call: &mut Call, thread: &mut Thread, shape: Shape) -> Details {
    let handle = call.handle(communicator_at(shape), Kind::Comm);
    let Some(comm) = communicators::of(thread, call.library, handle) else {
        return Details::default();
    };
    let amount = amount(call, &comm, shape);
    if let Some(page) = call.page {
        let writing = state::write(page);
        let last = entered(call, &comm, shape, &amount);
        call.want = writing.entered(&comm, last, waits(call, &comm, shape, &amount));
    }
    let unknown = if amount.unknown {
        flags::BYTES_UNKNOWN
    } else {
        0
    };
    Details {
        flags: comm.flags() | unknown,
        comm: comm.key,
        sequence: comm.next_collective(),
        root: amount.root,
        sent: amount.sent,
        received: amount.received,
        request: 0,
    }
}

/// The arguments that all members pass alike, as described at [`crate::page::Want::which`].
fn entered(call: &Call, comm: &Comm, shape: Shape, amount: &Amount) -> u64 {
    use Shape::*;
    let class = match shape {
        _ if comm.inter => class::OTHER,
        Barrier => class::BARRIER,
        Bcast | Scatter | Scatterv => class::FROM_ROOT,
        Reduce | Gather | Gatherv => class::TO_ROOT,
        Allgather | Allgatherv | Alltoall | Alltoallv | Alltoallw | Allreduce | ReduceScatter
        | ReduceScatterBlock => class::ALL_TO_ALL,
        _ => class::OTHER,
    };
    let rooted = matches!(class, class::FROM_ROOT | class::TO_ROOT);
    let root = amount.root.checked_sub(1).filter(|_| rooted).unwrap_or(0);
    let started = matches!(call.entry.how, How::StartCollective(_));
    // Large-count variants are the same collective; non-blocking ones are not (MPI 4.1, 6.12).
    // These values lie above the numbers of the functions that make communicators.
    let which = 1 << 15 | u16::from(started) << 8 | shape as u16;
    u64::from(class) | u64::from(which) << 16 | u64::from(root) << 32
}

/// Whether this member cannot leave before others have entered: it receives something from every
/// member or from the root.
fn waits(call: &Call, comm: &Comm, shape: Shape, amount: &Amount) -> bool {
    use Shape::*;
    let all = |counts: usize| (0..comm.members.len()).all(|k| call.count_of(counts, k) > 0);
    let root = amount.root == world::world().map_or(0, |world| world.rank + 1);
    match shape {
        _ if comm.inter => false,
        Barrier => true,
        _ if amount.received == 0 || amount.unknown => false,
        Bcast | Scatter | Scatterv => !root,
        Reduce | Gather => root,
        Gatherv => root && all(4),
        Allgather | Alltoall | Allreduce | ReduceScatter | ReduceScatterBlock => true,
        Allgatherv => all(4),
        Alltoallv | Alltoallw => all(5),
        _ => false,
    }
}

/// Position of the communicator among the arguments.
pub fn communicator_at(shape: Shape) -> usize {
    use Shape::*;
    match shape {
        Barrier => 0,
        Bcast => 4,
        Allreduce | ReduceScatter | ReduceScatterBlock | Scan | Exscan => 5,
        Allgather | NeighborAllgather | Alltoall | NeighborAlltoall | Reduce => 6,
        Gather | Scatter | Allgatherv | NeighborAllgatherv => 7,
        Gatherv | Scatterv | Alltoallv | NeighborAlltoallv | Alltoallw | NeighborAlltoallw => 8,
    }
}

/// Number of elements of the array in argument `i` of a C call; 0 if the array has no meaning for
/// this member.
pub fn elements(
    library: &Library,
    comm: usize,
    shape: Shape,
    i: usize,
    arguments: &[usize],
) -> Option<usize> {
    use Shape::*;
    let (mut inter, mut size, mut rank) = (0_i32, 0_i32, 0_i32);
    // SAFETY: the handle is the program's; each call writes one int.
    unsafe {
        mpi(library.comm_test_inter, [comm, (&raw mut inter) as usize])?;
        mpi(library.comm_rank, [comm, (&raw mut rank) as usize])?;
        let remote = inter != 0 && shape != ReduceScatter;
        let ask = if remote {
            library.comm_remote_size
        } else {
            library.comm_size
        };
        mpi(ask, [comm, (&raw mut size) as usize])?;
    }
    let neighbours = || neighbours(library, comm, rank);
    let many = match shape {
        Gatherv | Scatterv => {
            let root = if inter != 0 { library.abi.root } else { rank };
            if arguments[7] as i32 == root {
                usize::try_from(size).ok()?
            } else {
                0
            }
        }
        Alltoallv | Alltoallw if i < 3 && library.is_in_place(false, arguments[0]) => 0,
        NeighborAllgatherv => neighbours()?.incoming.len(),
        NeighborAlltoallv | NeighborAlltoallw if i < 3 => neighbours()?.outgoing.len(),
        NeighborAlltoallv | NeighborAlltoallw => neighbours()?.incoming.len(),
        _ => usize::try_from(size).ok()?,
    };
    Some(many)
}

/// Adds up sizes and remembers whether any type had no known size.
struct Sizes<'a, 'b> {
    call: &'a Call<'b>,
    unknown: bool,
}

impl Sizes<'_, '_> {
    fn size(&mut self, datatype: usize) -> u64 {
        let size = self
            .call
            .library
            .type_size(self.call.handle(datatype, Kind::Type));
        self.unknown |= size.is_none();
        size.unwrap_or(0)
    }

    /// Bytes of `count` elements of a type.
    fn plain(&mut self, count: usize, datatype: usize) -> u64 {
        self.call.count(count).saturating_mul(self.size(datatype))
    }

    /// Bytes of element `k` of an array of counts.
    fn element(&mut self, counts: usize, k: usize, datatype: usize) -> u64 {
        self.call
            .count_of(counts, k)
            .saturating_mul(self.size(datatype))
    }

    /// Bytes of the chosen elements of an array of counts.
    fn chosen(
        &mut self,
        counts: usize,
        datatype: usize,
        chosen: impl Iterator<Item = usize>,
    ) -> u64 {
        let count: u64 = chosen
            .map(|k| self.call.count_of(counts, k))
            .fold(0, u64::saturating_add);
        count.saturating_mul(self.size(datatype))
    }

    /// As `chosen`, with an array of types.
    fn typed(&mut self, counts: usize, types: usize, chosen: impl Iterator<Item = usize>) -> u64 {
        let mut sum = 0_u64;
        for k in chosen {
            let count = self.call.count_of(counts, k);
            // If its count is 0, the type may be anything.
            if count == 0 {
                continue;
            }
            let size = self
                .call
                .library
                .type_size(self.call.handle_of(types, k, Kind::Type));
            self.unknown |= size.is_none();
            sum = sum.saturating_add(count.saturating_mul(size.unwrap_or(0)));
        }
        sum
    }
}

fn amount(call: &Call, comm: &Comm, shape: Shape) -> Amount {
    use Shape::*;
    let abi = call.library.abi;
    let all = comm.members.len();
    let many = all as u64;
    let me = usize::try_from(comm.rank).unwrap_or(0);
    let mut s = Sizes {
        call,
        unknown: false,
    };
    let rooted = |at: usize| {
        let root = call.int(at);
        match comm.inter {
            false if root == comm.rank => (Part::Root, comm.peer(root)),
            true if root == abi.root => {
                (Part::Root, world::world().map_or(0, |world| world.rank + 1))
            }
            true if root == abi.proc_null => (Part::None, 0),
            _ => (Part::Other, comm.peer(root)),
        }
    };
    // What the root contributes itself; nothing in an intercommunicator.
    let own = !comm.inter;
    let (sent, received, root) = match shape {
        Barrier => (0, 0, 0),
        Bcast => match rooted(3) {
            (Part::Root, root) => (s.plain(1, 2), 0, root),
            (Part::Other, root) => (0, s.plain(1, 2), root),
            (Part::None, root) => (0, 0, root),
        },
        Gather | Gatherv => {
            let vector = shape == Gatherv;
            let (part, root) = rooted(if vector { 7 } else { 6 });
            match part {
                Part::Other => (s.plain(1, 2), 0, root),
                Part::None => (0, 0, root),
                Part::Root => {
                    let got = match vector {
                        true => s.chosen(4, 6, 0..all),
                        false => s.plain(4, 5).saturating_mul(many),
                    };
                    let sent = match (own, call.in_place(0)) {
                        (false, _) => 0,
                        (true, false) => s.plain(1, 2),
                        (true, true) if vector => s.element(4, me, 6),
                        (true, true) => s.plain(4, 5),
                    };
                    (sent, got, root)
                }
            }
        }
        Scatter | Scatterv => {
            let vector = shape == Scatterv;
            let (part, root) = rooted(if vector { 7 } else { 6 });
            let (buffer, count, datatype) = if vector { (4, 5, 6) } else { (3, 4, 5) };
            match part {
                Part::Other => (0, s.plain(count, datatype), root),
                Part::None => (0, 0, root),
                Part::Root => {
                    let sent = match vector {
                        true => s.chosen(1, 3, 0..all),
                        false => s.plain(1, 2).saturating_mul(many),
                    };
                    let got = match (own, call.in_place(buffer)) {
                        (false, _) => 0,
                        (true, false) => s.plain(count, datatype),
                        (true, true) if vector => s.element(1, me, 3),
                        (true, true) => s.plain(1, 2),
                    };
                    (sent, got, root)
                }
            }
        }
        Allgather => {
            let each = s.plain(4, 5);
            let sent = if call.in_place(0) {
                each
            } else {
                s.plain(1, 2)
            };
            (sent, each.saturating_mul(many), 0)
        }
        Allgatherv => {
            let sent = if call.in_place(0) {
                s.element(4, me, 6)
            } else {
                s.plain(1, 2)
            };
            (sent, s.chosen(4, 6, 0..all), 0)
        }
        Alltoall => {
            let each = s.plain(4, 5);
            let sent = if call.in_place(0) {
                each
            } else {
                s.plain(1, 2)
            };
            (sent.saturating_mul(many), each.saturating_mul(many), 0)
        }
        Alltoallv => {
            let got = s.chosen(5, 7, 0..all);
            (
                if call.in_place(0) {
                    got
                } else {
                    s.chosen(1, 3, 0..all)
                },
                got,
                0,
            )
        }
        Alltoallw => {
            let got = s.typed(5, 7, 0..all);
            (
                if call.in_place(0) {
                    got
                } else {
                    s.typed(1, 3, 0..all)
                },
                got,
                0,
            )
        }
        Reduce => match rooted(5) {
            (Part::Other, root) => (s.plain(2, 3), 0, root),
            (Part::None, root) => (0, 0, root),
            (Part::Root, root) => {
                let got = s.plain(2, 3);
                (if own { got } else { 0 }, got, root)
            }
        },
        Allreduce | Scan => (s.plain(2, 3), s.plain(2, 3), 0),
        Exscan => (s.plain(2, 3), if me == 0 { 0 } else { s.plain(2, 3) }, 0),
        ReduceScatter => {
            let all = comm.local_size();
            (s.chosen(2, 3, 0..all), s.element(2, me, 3), 0)
        }
        ReduceScatterBlock => {
            let each = s.plain(2, 3);
            (each.saturating_mul(comm.local_size() as u64), each, 0)
        }
        NeighborAllgather | NeighborAllgatherv | NeighborAlltoall | NeighborAlltoallv
        | NeighborAlltoallw => {
            match comm.neighbours.get_or_init(|| {
                neighbours(
                    call.library,
                    call.handle(communicator_at(shape), Kind::Comm),
                    comm.rank,
                )
            }) {
                Some(neighbours) => to_neighbours(&mut s, shape, neighbours),
                None => {
                    s.unknown = true;
                    (0, 0, 0)
                }
            }
        }
    };
    Amount {
        sent,
        received,
        root,
        unknown: s.unknown,
    }
}

fn to_neighbours(s: &mut Sizes, shape: Shape, neighbours: &Neighbours) -> (u64, u64, u32) {
    let there = |of: &[bool]| of.iter().filter(|&&there| there).count() as u64;
    let list = |of: &[bool]| -> Vec<usize> { (0..of.len()).filter(|&k| of[k]).collect() };
    let (to, from) = (list(&neighbours.outgoing), list(&neighbours.incoming));
    let (outgoing, incoming) = (there(&neighbours.outgoing), there(&neighbours.incoming));
    let (sent, received) = match shape {
        Shape::NeighborAllgatherv => (
            s.plain(1, 2).saturating_mul(outgoing),
            s.chosen(4, 6, from.into_iter()),
        ),
        Shape::NeighborAlltoallv => (
            s.chosen(1, 3, to.into_iter()),
            s.chosen(5, 7, from.into_iter()),
        ),
        Shape::NeighborAlltoallw => (
            s.typed(1, 3, to.into_iter()),
            s.typed(5, 7, from.into_iter()),
        ),
        _ => (
            s.plain(1, 2).saturating_mul(outgoing),
            s.plain(4, 5).saturating_mul(incoming),
        ),
    };
    (sent, received, 0)
}

/// The values of MPI_CART, MPI_GRAPH and MPI_DIST_GRAPH in each family.
fn topologies(family: Family) -> [i32; 3] {
    match family {
        Family::OpenMpi => [1, 2, 3],
        Family::Mpich => [2, 1, 3],
        Family::Standard => [211, 212, 213],
    }
}

/// The neighbours of this process. In a Cartesian grid, those beyond the edge may be
/// MPI_PROC_NULL, to which nothing is sent.
fn neighbours(library: &Library, comm: usize, rank: i32) -> Option<Neighbours> {
    let mut topology = 0_i32;
    // SAFETY: each of these functions writes ints only and is called for its own kind of topology.
    unsafe {
        mpi(library.topo_test, [comm, (&raw mut topology) as usize])?;
        let [cart, graph, dist_graph] = topologies(library.abi.family);
        if topology == cart {
            let mut dimensions = 0_i32;
            mpi(library.cartdim_get, [comm, (&raw mut dimensions) as usize])?;
            let mut there = Vec::new();
            for dimension in 0..dimensions {
                let (mut below, mut above) = (0_i32, 0_i32);
                let places = ((&raw mut below) as usize, (&raw mut above) as usize);
                mpi(
                    library.cart_shift,
                    [comm, dimension as usize, 1, places.0, places.1],
                )?;
                there.push(below != library.abi.proc_null);
                there.push(above != library.abi.proc_null);
            }
            Some(Neighbours {
                incoming: there.clone(),
                outgoing: there,
            })
        } else if topology == graph {
            let mut many = 0_i32;
            mpi(
                library.graph_neighbors_count,
                [comm, rank as usize, (&raw mut many) as usize],
            )?;
            let there = vec![true; usize::try_from(many).ok()?];
            Some(Neighbours {
                incoming: there.clone(),
                outgoing: there,
            })
        } else if topology == dist_graph {
            let (mut incoming, mut outgoing, mut weighted) = (0_i32, 0_i32, 0_i32);
            let places = [&raw mut incoming, &raw mut outgoing, &raw mut weighted];
            let [first, second, third] = places.map(|place| place as usize);
            mpi(
                library.dist_graph_neighbors_count,
                [comm, first, second, third],
            )?;
            let there = |many: i32| usize::try_from(many).ok().map(|many| vec![true; many]);
            Some(Neighbours {
                incoming: there(incoming)?,
                outgoing: there(outgoing)?,
            })
        } else {
            None
        }
    }
}
