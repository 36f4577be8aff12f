//! Collectives over point-to-point messages, for fabrics that have none of their own: binomial
//! trees, and direct exchange where every rank talks to every other (Thakur, Rabenseifner and
//! Gropp, 2005, section 4). Blocks of different lengths are exchanged pairwise, one partner after
//! the other, so that at most one block each way is copied at a time.

use crate::{FabricError, PointToPoint, Tag};
use idlewave_units::Rank;
use std::ops::Range;

const REDUCE: Tag = Tag(Tag::RESERVED);
const BROADCAST: Tag = Tag(Tag::RESERVED + 1);
const ALLTOALL: Tag = Tag(Tag::RESERVED + 2);
const ALLGATHER: Tag = Tag(Tag::RESERVED + 3);
const ALLTOALLV: Tag = Tag(Tag::RESERVED + 4);

/// How the values of several ranks are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// The ranks renumbered so that the root is 0.
struct Tree {
    own: u32,
    size: u32,
    root: u32,
}

impl Tree {
    fn new<F: PointToPoint>(fabric: &F, root: Rank) -> Result<Self, FabricError> {
        let size = fabric.size();
        if root.get() >= size {
            return Err(FabricError::NoSuchRank { rank: root, size });
        }
        Ok(Self {
            own: (fabric.rank().get() + size - root.get()) % size,
            size,
            root: root.get(),
        })
    }

    fn real(&self, place: u32) -> Rank {
        Rank::new((place + self.root) % self.size)
    }
}

fn combine(values: &mut [f64], other: &[u8], reduction: Reduction) {
    for (value, bytes) in values.iter_mut().zip(other.chunks_exact(8)) {
        let mut raw = [0; 8];
        raw.copy_from_slice(bytes);
        let other = f64::from_le_bytes(raw);
        *value = match reduction {
            Reduction::Sum => *value + other,
            Reduction::Min => value.min(other),
            Reduction::Max => value.max(other),
        };
    }
}

pub fn reduce<F: PointToPoint>(
    fabric: &mut F,
    root: Rank,
    values: &mut [f64],
    reduction: Reduction,
    hook: &mut impl FnMut(),
) -> Result<(), FabricError> {
    let tree = Tree::new(fabric, root)?;
    let length = values.len() * 8;
    let mut buffer = Vec::with_capacity(length);
    let mut step = 1;
    while step < tree.size {
        if tree.own & step != 0 {
            buffer.clear();
            buffer.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            let sending = fabric.start_send(tree.real(tree.own - step), REDUCE, buffer)?;
            fabric.finish_send(sending, hook)?;
            return Ok(());
        }
        if tree.own + step < tree.size {
            let from = tree.real(tree.own + step);
            let receiving = fabric.start_receive(Some(from), REDUCE, length, buffer)?;
            buffer = fabric.finish_receive(receiving, hook)?.data;
            combine(values, &buffer, reduction);
        }
        step *= 2;
    }
    Ok(())
}

pub fn broadcast<F: PointToPoint>(
    fabric: &mut F,
    root: Rank,
    data: &mut [u8],
    hook: &mut impl FnMut(),
) -> Result<(), FabricError> {
    let tree = Tree::new(fabric, root)?;
    let mut buffer = data.to_vec();
    // The distance from this rank's parent in the tree: its lowest set bit. For the root, a bit
    // above all others.
    let reached = match tree.own {
        0 => tree.size.next_power_of_two(),
        own => 1 << own.trailing_zeros(),
    };
    if tree.own != 0 {
        let from = tree.real(tree.own - reached);
        let receiving = fabric.start_receive(Some(from), BROADCAST, data.len(), buffer)?;
        buffer = fabric.finish_receive(receiving, hook)?.data;
        data.copy_from_slice(&buffer);
    }
    let mut step = reached / 2;
    while step > 0 {
        if tree.own + step < tree.size {
            let sending = fabric.start_send(tree.real(tree.own + step), BROADCAST, buffer)?;
            buffer = fabric.finish_send(sending, hook)?;
        }
        step /= 2;
    }
    Ok(())
}

pub fn allreduce<F: PointToPoint>(
    fabric: &mut F,
    values: &mut [f64],
    reduction: Reduction,
    hook: &mut impl FnMut(),
) -> Result<(), FabricError> {
    let root = Rank::new(0);
    reduce(fabric, root, values, reduction, hook)?;
    let mut bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    broadcast(fabric, root, &mut bytes, hook)?;
    for (value, raw) in values.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut one = [0; 8];
        one.copy_from_slice(raw);
        *value = f64::from_le_bytes(one);
    }
    Ok(())
}

pub fn alltoall<F: PointToPoint>(
    fabric: &mut F,
    send: &[u8],
    receive: &mut [u8],
    hook: &mut impl FnMut(),
) -> Result<(), FabricError> {
    let (own, size) = (fabric.rank().get(), fabric.size());
    let block = send.len() / size as usize;
    let place = |rank: u32| rank as usize * block..(rank as usize + 1) * block;
    let mut receives = Vec::with_capacity(size as usize);
    let mut sends = Vec::with_capacity(size as usize);
    for step in 1..size {
        let from = (own + size - step) % size;
        let receiving = fabric.start_receive(Some(Rank::new(from)), ALLTOALL, block, Vec::new())?;
        receives.push((from, receiving));
    }
    for step in 1..size {
        let to = (own + step) % size;
        sends.push(fabric.start_send(Rank::new(to), ALLTOALL, send[place(to)].to_vec())?);
    }
    receive[place(own)].copy_from_slice(&send[place(own)]);
    for (from, receiving) in receives {
        let data = fabric.finish_receive(receiving, hook)?.data;
        receive[place(from)].copy_from_slice(&data);
    }
    for sending in sends {
        fabric.finish_send(sending, hook)?;
    }
    Ok(())
}

/// The ranges of blocks of these lengths in a buffer of `length` bytes.
pub fn blocks_of(counts: &[usize], length: usize, size: u32) -> Vec<Range<usize>> {
    assert_eq!(
        counts.len(),
        size as usize,
        "there is a count for each rank"
    );
    let mut end = 0;
    let blocks = counts
        .iter()
        .map(|count| {
            let begin = end;
            end += count;
            begin..end
        })
        .collect();
    assert_eq!(end, length, "the buffer is as long as its blocks");
    blocks
}

pub fn alltoallv<F: PointToPoint>(
    fabric: &mut F,
    send: &[u8],
    send_counts: &[usize],
    receive: &mut [u8],
    receive_counts: &[usize],
    hook: &mut impl FnMut(),
) -> Result<(), FabricError> {
    let (own, size) = (fabric.rank().get(), fabric.size());
    let outgoing = blocks_of(send_counts, send.len(), size);
    let incoming = blocks_of(receive_counts, receive.len(), size);
    let mut place = |from: u32, data: &[u8]| {
        receive[incoming[from as usize].clone()].copy_from_slice(data);
    };
    let block = |to: u32| &send[outgoing[to as usize].clone()];
    place(own, block(own));
    let (mut data, mut buffer) = (Vec::new(), Vec::new());
    for step in 1..size {
        let (to, from) = ((own + step) % size, (own + size - step) % size);
        data.clear();
        data.extend_from_slice(block(to));
        let capacity = receive_counts[from as usize];
        let (to, peer) = (Rank::new(to), Rank::new(from));
        let (sent, delivery) =
            fabric.send_receive(to, data, peer, ALLTOALLV, capacity, buffer, hook)?;
        place(from, &delivery.data);
        (data, buffer) = (sent, delivery.data);
    }
    Ok(())
}

pub fn allgather<F: PointToPoint>(
    fabric: &mut F,
    own: &[u8],
    all: &mut [u8],
    hook: &mut impl FnMut(),
) -> Result<(), FabricError> {
    let (rank, size) = (fabric.rank().get(), fabric.size());
    let block = own.len();
    let place = |rank: u32| rank as usize * block..(rank as usize + 1) * block;
    let mut receives = Vec::with_capacity(size as usize);
    let mut sends = Vec::with_capacity(size as usize);
    for step in 1..size {
        let from = (rank + size - step) % size;
        let receiving =
            fabric.start_receive(Some(Rank::new(from)), ALLGATHER, block, Vec::new())?;
        receives.push((from, receiving));
    }
    for step in 1..size {
        let to = Rank::new((rank + step) % size);
        sends.push(fabric.start_send(to, ALLGATHER, own.to_vec())?);
    }
    all[place(rank)].copy_from_slice(own);
    for (from, receiving) in receives {
        let data = fabric.finish_receive(receiving, hook)?.data;
        all[place(from)].copy_from_slice(&data);
    }
    for sending in sends {
        fabric.finish_send(sending, hook)?;
    }
    Ok(())
}
