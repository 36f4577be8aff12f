//! Total traffic between the ranks of a program: the communication graph.
//!
//! It ignores the order and the times of messages, so a swap of two ranks is cheap to score.

use idlewave_network::Program;

/// All messages between a rank and one partner, from the rank's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub peer: u32,
    /// Index of the partner's edge back, among all edges.
    pub mirror: u32,
    /// Bytes to the partner.
    pub out: u64,
    /// Bytes from the partner.
    pub into: u64,
    /// Messages to the partner.
    pub messages: u64,
}

impl Edge {
    /// Bytes of the direction with more traffic.
    pub fn most(&self) -> u64 {
        self.out.max(self.into)
    }
}

/// The communication graph of a program, with the computation of its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Where the edges of each rank start, then the end of the last rank.
    starts: Vec<u32>,
    /// By rank, the heaviest partner first.
    edges: Vec<Edge>,
    /// Bytes that a rank sends to itself.
    own: Vec<u64>,
    work_ns: Vec<u64>,
    /// Ends of messages, each of which costs an overhead.
    ends: Vec<u64>,
}

/// Messages of two ranks, the lower one first.
struct Both {
    ranks: (u32, u32),
    bytes: [u64; 2],
    messages: [u64; 2],
}

impl Traffic {
    /// Adds up the messages of a program.
    pub fn new(program: &Program) -> Self {
        let ranks = program.ranks() as usize;
        let mut traffic = Traffic {
            starts: vec![0; ranks + 1],
            edges: Vec::new(),
            own: vec![0; ranks],
            work_ns: (0..program.ranks()).map(|r| program.work_ns(r)).collect(),
            ends: vec![0; ranks],
        };
        let both = traffic.merge(program);
        for pair in &both {
            for rank in [pair.ranks.0, pair.ranks.1] {
                traffic.starts[rank as usize + 1] += 1;
            }
        }
        for rank in 0..ranks {
            traffic.starts[rank + 1] += traffic.starts[rank];
        }
        // Holds the pair of each edge instead of its mirror until all positions are known.
        let mut next = traffic.starts.clone();
        let nothing = Edge {
            peer: 0,
            mirror: 0,
            out: 0,
            into: 0,
            messages: 0,
        };
        traffic.edges = vec![nothing; 2 * both.len()];
        for (at, pair) in both.iter().enumerate() {
            let ends = [(pair.ranks.0, pair.ranks.1), (pair.ranks.1, pair.ranks.0)];
            for (side, (rank, peer)) in ends.into_iter().enumerate() {
                let place = &mut next[rank as usize];
                traffic.edges[*place as usize] = Edge {
                    peer,
                    mirror: at as u32,
                    out: pair.bytes[side],
                    into: pair.bytes[1 - side],
                    messages: pair.messages[side],
                };
                *place += 1;
            }
        }
        traffic.sort(both.len());
        traffic
    }

    /// Messages by pairs of ranks, in the order of the pairs.
    fn merge(&mut self, program: &Program) -> Vec<Both> {
        let mut sums: Vec<(u32, u32, u64, u64)> = Vec::new();
        for message in program.messages() {
            self.ends[message.from as usize] += 1;
            self.ends[message.to as usize] += 1;
            match sums.last_mut() {
                Some(last) if (last.0, last.1) == (message.from, message.to) => {
                    last.2 += message.bytes;
                    last.3 += 1;
                }
                _ => sums.push((message.from, message.to, message.bytes, 1)),
            }
        }
        sums.sort_unstable_by_key(|s| (s.0.min(s.1), s.0.max(s.1), s.0));
        let mut both: Vec<Both> = Vec::new();
        for (from, to, bytes, messages) in sums {
            if from == to {
                self.own[from as usize] += bytes;
                continue;
            }
            let ranks = (from.min(to), from.max(to));
            if both.last().is_none_or(|last| last.ranks != ranks) {
                both.push(Both {
                    ranks,
                    bytes: [0; 2],
                    messages: [0; 2],
                });
            }
            if let Some(last) = both.last_mut() {
                let side = usize::from(from > to);
                last.bytes[side] += bytes;
                last.messages[side] += messages;
            }
        }
        both
    }

    fn sort(&mut self, pairs: usize) {
        for rank in 0..self.own.len() {
            let range = self.starts[rank] as usize..self.starts[rank + 1] as usize;
            self.edges[range].sort_unstable_by_key(|e| (std::cmp::Reverse(e.most()), e.peer));
        }
        let mut first: Vec<Option<u32>> = vec![None; pairs];
        for at in 0..self.edges.len() {
            let pair = self.edges[at].mirror as usize;
            match first[pair] {
                None => first[pair] = Some(at as u32),
                Some(other) => {
                    self.edges[at].mirror = other;
                    self.edges[other as usize].mirror = at as u32;
                }
            }
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.own.len() as u32
    }

    /// Number of pairs of ranks with messages, counted from both ends.
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// The partners of a rank with the bytes to and from each of them, the one with most in one
    /// direction first.
    pub fn partners(&self, rank: u32) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        self.edges_of(rank)
            .iter()
            .map(|edge| (edge.peer, edge.out, edge.into))
    }

    /// Where the edges of a rank start.
    pub(crate) fn start(&self, rank: u32) -> usize {
        self.starts[rank as usize] as usize
    }

    pub(crate) fn edges_of(&self, rank: u32) -> &[Edge] {
        let at = rank as usize;
        &self.edges[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// An edge by its index among all.
    pub(crate) fn edge(&self, at: usize) -> &Edge {
        &self.edges[at]
    }

    /// Bytes that a rank sends to itself.
    pub(crate) fn own(&self, rank: u32) -> u64 {
        self.own[rank as usize]
    }

    pub(crate) fn work_ns(&self, rank: u32) -> u64 {
        self.work_ns[rank as usize]
    }

    pub(crate) fn ends(&self, rank: u32) -> u64 {
        self.ends[rank as usize]
    }

    /// All bytes of all messages.
    pub fn bytes(&self) -> u64 {
        let between: u64 = self.edges.iter().map(|e| e.out).sum();
        between + self.own.iter().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::program_of;

    #[test]
    fn messages_of_two_ranks_are_added_up_per_direction_and_heaviest_partners_come_first() {
        let messages = [(0, 1, 5), (1, 0, 7), (0, 2, 9), (0, 1, 3), (2, 2, 4)];
        let traffic = Traffic::new(&program_of(3, &messages, 11));
        let of: Vec<_> = traffic.partners(0).collect();
        assert_eq!(of, [(2, 9, 0), (1, 8, 7)]);
        assert_eq!(traffic.partners(1).collect::<Vec<_>>(), [(0, 7, 8)]);
        assert_eq!((traffic.own(2), traffic.bytes()), (4, 28));
        assert_eq!((traffic.ends(0), traffic.work_ns(0)), (4, 11));
        for rank in 0..3 {
            for (at, edge) in traffic.edges_of(rank).iter().enumerate() {
                let back = traffic.edges[edge.mirror as usize];
                assert_eq!(
                    (back.peer, back.out, back.into),
                    (rank, edge.into, edge.out)
                );
                assert_eq!(back.mirror as usize, traffic.start(rank) + at);
            }
        }
    }
}
