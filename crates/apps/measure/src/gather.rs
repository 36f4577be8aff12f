//! Small agreements between ranks, and gathering data on rank 0 in pieces of bounded size.

use idlewave_fabric::{Fabric, FabricError, Nodes, Tag};
use idlewave_units::{NodeId, Rank};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Words per piece: 512 KiB.
const PIECE: usize = 65_536;
const TAG: Tag = Tag(200);
const ROOT: Rank = Rank::new(0);

/// Tells all ranks whether all is well on rank 0.
pub fn agree<F: Fabric>(fabric: &mut F, well: bool) -> Result<bool, FabricError> {
    Ok(from_root(fabric, [u64::from(well)])? == [1])
}

/// Distributes the words of rank 0 to all ranks.
pub fn from_root<F: Fabric, const N: usize>(
    fabric: &mut F,
    mut words: [u64; N],
) -> Result<[u64; N], FabricError> {
    fabric.broadcast(ROOT, bytemuck::cast_slice_mut(&mut words[..]), &mut || ())?;
    Ok(words)
}

/// Gives every rank the words of all ranks, in rank order.
pub fn of_all<F: Fabric, const N: usize>(
    fabric: &mut F,
    words: [u64; N],
) -> Result<Vec<[u64; N]>, FabricError> {
    let mut all = vec![0_u64; N * fabric.size() as usize];
    let target = bytemuck::cast_slice_mut(&mut all);
    fabric.allgather(bytemuck::cast_slice(&words[..]), target, &mut || ())?;
    let row = |chunk: &[u64]| std::array::from_fn(|i| chunk[i]);
    Ok(all.chunks_exact(N).map(row).collect())
}

/// The words of each of the ranks 0 to `ranks` - 1 on rank 0, in rank order; `None` elsewhere.
/// Lengths may differ. No rank sends before it is asked, so rank 0 holds only one piece besides the
/// result.
pub fn to_root<F: Fabric>(
    fabric: &mut F,
    own: &[u64],
    ranks: u32,
) -> Result<Option<Vec<Vec<u64>>>, FabricError> {
    let lengths = of_all(fabric, [own.len() as u64])?;
    let me = fabric.rank();
    if me != ROOT {
        if me.get() < ranks {
            give_all(fabric, own)?;
        }
        return Ok(None);
    }
    let mut all = Vec::with_capacity(ranks as usize);
    for (rank, [length]) in lengths.iter().enumerate().take(ranks as usize) {
        if rank == 0 {
            all.push(own.to_vec());
            continue;
        }
        all.push(take_all(fabric, Rank::new(rank as u32), *length as usize)?);
    }
    Ok(Some(all))
}

/// The words of rank `from` on rank 0; none elsewhere. Only these two ranks exchange messages.
pub fn from_rank<F: Fabric>(
    fabric: &mut F,
    from: Rank,
    own: &[u64],
) -> Result<Vec<u64>, FabricError> {
    let me = fabric.rank();
    if from == ROOT {
        return Ok(if me == ROOT { own.to_vec() } else { Vec::new() });
    }
    if me == from {
        give_all(fabric, &[own.len() as u64])?;
        give_all(fabric, own)?;
    }
    if me != ROOT {
        return Ok(Vec::new());
    }
    let length = take_all(fabric, from, 1)?;
    take_all(fabric, from, length.first().map_or(0, |l| *l as usize))
}

/// Sends words to rank 0 once it asks.
fn give_all<F: Fabric>(fabric: &mut F, own: &[u64]) -> Result<(), FabricError> {
    take(fabric, ROOT, 0, Vec::new())?;
    for piece in own.chunks(PIECE) {
        give(fabric, ROOT, bytemuck::cast_slice(piece).to_vec())?;
    }
    Ok(())
}

/// Asks a rank for so many words.
fn take_all<F: Fabric>(fabric: &mut F, from: Rank, length: usize) -> Result<Vec<u64>, FabricError> {
    give(fabric, from, Vec::new())?;
    let mut words = Vec::new();
    let mut buffer = Vec::new();
    while words.len() < length {
        buffer = take(fabric, from, PIECE * 8, buffer)?;
        // The buffer may not be aligned to a word.
        let whole = buffer.chunks_exact(8);
        words.extend(whole.map(|b| u64::from_ne_bytes(std::array::from_fn(|i| b[i]))));
    }
    Ok(words)
}

/// Of the values of all ranks, that of the leader of each node; nothing of no values.
pub fn by_node<T>(nodes: &Nodes, mut all: Vec<Option<T>>) -> Vec<Option<T>> {
    let count = if all.is_empty() { 0 } else { nodes.count() };
    let leaders = (0..count).map(|node| nodes.leader(NodeId::new(node)));
    leaders
        .map(|leader| all.get_mut(leader?.index())?.take())
        .collect()
}

/// The value of each rank, on rank 0 in rank order; empty elsewhere.
pub fn values_to_root<F: Fabric, T: Serialize + DeserializeOwned>(
    fabric: &mut F,
    own: Option<&T>,
) -> Result<Vec<Option<T>>, FabricError> {
    // A value that cannot be serialized counts as missing.
    let text = own.and_then(|own| serde_json::to_vec(own).ok());
    let mut text = text.unwrap_or_default();
    // Pad with white space, which JSON ignores.
    text.resize(text.len().next_multiple_of(8), b' ');
    let words: Vec<u64> = text
        .chunks_exact(8)
        .map(|b| u64::from_ne_bytes(std::array::from_fn(|i| b[i])))
        .collect();
    let ranks = fabric.size();
    let all = to_root(fabric, &words, ranks)?.unwrap_or_default();
    let value = |words: Vec<u64>| serde_json::from_slice(bytemuck::cast_slice(&words)).ok();
    Ok(all.into_iter().map(value).collect())
}

fn give<F: Fabric>(fabric: &mut F, to: Rank, bytes: Vec<u8>) -> Result<(), FabricError> {
    let sending = fabric.start_send(to, TAG, bytes)?;
    fabric.finish_send(sending, &mut || ()).map(drop)
}

fn take<F: Fabric>(
    fabric: &mut F,
    from: Rank,
    capacity: usize,
    buffer: Vec<u8>,
) -> Result<Vec<u8>, FabricError> {
    let receiving = fabric.start_receive(Some(from), TAG, capacity, buffer)?;
    Ok(fabric.finish_receive(receiving, &mut || ())?.data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_fabric::{PointToPoint, Waiting, world};

    #[test]
    fn rank_0_gets_everything_in_order_in_pieces() {
        let size = 3;
        std::thread::scope(|scope| {
            for mut fabric in world(size, Waiting::Yield) {
                scope.spawn(move || {
                    let rank = u64::from(fabric.rank().get());
                    let own: Vec<u64> = (0..rank * 70_000).map(|i| i * 3 + rank).collect();
                    let all = to_root(&mut fabric, &own, size).expect("all live");
                    assert_eq!(all.is_some(), rank == 0);
                    for (from, words) in all.into_iter().flatten().enumerate() {
                        let from = from as u64;
                        assert!(
                            words
                                .iter()
                                .copied()
                                .eq((0..from * 70_000).map(|i| i * 3 + from))
                        );
                    }
                    // A length that fills a word, lengths that do not, and no value.
                    let own = (rank != 1).then(|| "x".repeat(6 + rank as usize));
                    let all = values_to_root(&mut fabric, own.as_ref()).expect("all live");
                    if rank == 0 {
                        let all: Vec<_> = all.iter().map(Option::as_deref).collect();
                        assert_eq!(all, [Some("xxxxxx"), None, Some("xxxxxxxx")]);
                    } else {
                        assert!(all.is_empty());
                    }
                    let own: Vec<u64> = (0..70_000 * rank).collect();
                    let of_last = from_rank(&mut fabric, Rank::new(2), &own).expect("all live");
                    let expected = if rank == 0 { 140_000 } else { 0 };
                    assert!(of_last.into_iter().eq(0..expected));
                    assert!(agree(&mut fabric, rank == 0).expect("all live"));
                    assert_eq!(of_all(&mut fabric, [rank, 7]).expect("all live")[2], [2, 7]);
                });
            }
        });
    }
}
