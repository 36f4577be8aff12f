//! A world of ranks that compute, exchange messages and meet in collectives, at times that have
//! closed forms.

use super::Made;

/// Time of a call that does not wait.
pub const CALL: u64 = 100;
/// From the send of a message, or the last entry into a collective, until the waiting rank goes on.
pub const LATENCY: u64 = 500;

/// Runs ranks and records their calls.
pub struct World {
    pub made: Made,
    /// The current time of each rank.
    pub now: Vec<u64>,
}

impl World {
    pub fn new(ranks: u32) -> Self {
        Self {
            made: Made::new(ranks),
            now: vec![0; ranks as usize],
        }
    }

    pub fn compute(&mut self, rank: usize, ns: u64) {
        self.now[rank] += ns;
    }

    pub fn compute_all(&mut self, ns: u64) {
        self.now.iter_mut().for_each(|t| *t += ns);
    }

    /// Another task takes the CPU of a rank at its current time.
    pub fn strike(&mut self, rank: usize, ns: u64, name: usize) {
        let at = self.now[rank];
        self.made.strike(rank as u32, (at, at + ns), name);
        self.now[rank] += ns;
    }

    /// Every rank sends to `rank + d` and receives from `rank - d` on a ring, for all `d` in
    /// `steps`; buffered messages, one MPI_Waitall.
    pub fn exchange(&mut self, steps: &[i32]) {
        let ranks = self.now.len();
        let at = |rank: usize, step: i32| (rank as i32 + step).rem_euclid(ranks as i32) as usize;
        let mut posted = vec![Vec::new(); ranks];
        let mut sent = vec![Vec::new(); ranks];
        for rank in 0..ranks {
            for (name, list) in [("MPI_Irecv", &mut posted), ("MPI_Isend", &mut sent)] {
                for _ in steps {
                    let now = &mut self.now[rank];
                    self.made.call(name, rank as u32, (*now, *now + CALL));
                    list[rank].push(*now);
                    *now += CALL;
                }
            }
        }
        let enter = self.now.clone();
        for rank in 0..ranks {
            let arrivals = (0..steps.len()).map(|i| sent[at(rank, -steps[i])][i] + LATENCY);
            let leave = arrivals.max().unwrap_or(0).max(enter[rank] + CALL);
            let span = (enter[rank], leave);
            self.made.call("MPI_Waitall", rank as u32, span);
            for (i, &step) in steps.iter().enumerate() {
                let (r, tag) = (rank as u32, step);
                let (to, from) = (at(rank, step) as u32, at(rank, -step) as u32);
                let send = sent[rank][i];
                self.made
                    .transfer(true, r, Some(to), 0, tag, 64, send, Some(span));
                let receive = posted[rank][i];
                self.made
                    .transfer(false, r, Some(from), 0, tag, 64, receive, Some(span));
            }
            self.now[rank] = leave;
        }
    }

    /// A collective over all ranks.
    pub fn collective(&mut self, name: &str, root: usize) {
        let enter = self.now.clone();
        let last = |until: usize| enter[..until].iter().copied().max().unwrap_or(0);
        let members: Vec<(u32, u64, u64)> = (0..enter.len())
            .map(|r| {
                let released = match name {
                    "MPI_Bcast" => enter[root].max(enter[r]),
                    "MPI_Reduce" if r != root => enter[r],
                    "MPI_Scan" => last(r + 1),
                    _ => last(enter.len()),
                };
                self.now[r] = released + LATENCY;
                (r as u32, enter[r], self.now[r])
            })
            .collect();
        let root = matches!(name, "MPI_Bcast" | "MPI_Reduce").then_some(root as u32);
        self.made.collective(name, 0, root, &members);
    }
}
