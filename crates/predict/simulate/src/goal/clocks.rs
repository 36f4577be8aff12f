//! When each CPU and NIC of every rank is free again.

use super::prefetch::prefetch;
use super::schedule::{Kind, Record};

/// Times in nanoseconds. With one CPU and one NIC per rank (not `MANY`), a rank is three adjacent
/// numbers.
pub(crate) struct Clocks<const MANY: bool> {
    times: Vec<u64>,
    /// Where the CPUs of each rank start, and its NICs, which take two numbers each. One entry more
    /// than there are ranks.
    places: Vec<[usize; 2]>,
}

/// The largest CPU and NIC number of each rank, over its operations and the messages sent to it: a
/// message takes the receiver's CPU and NIC with the sender's numbers.
pub(super) fn largest(ranks: u32, records: &[Record]) -> Vec<[u8; 2]> {
    let mut largest = vec![[0_u8; 2]; ranks as usize];
    for record in records {
        let sent = (record.kind == Kind::Send).then_some(record.peer);
        for rank in [Some(record.rank), sent].into_iter().flatten() {
            let [cpu, nic] = &mut largest[rank as usize];
            *cpu = record.cpu.max(*cpu);
            *nic = record.nic.max(*nic);
        }
    }
    largest
}

impl Clocks<false> {
    /// One CPU and one NIC per rank.
    pub fn single(ranks: u32) -> Self {
        Clocks {
            times: vec![0; 3 * ranks as usize],
            places: Vec::new(),
        }
    }
}

impl Clocks<true> {
    /// CPUs and NICs of each rank, from its largest number of each.
    pub fn several(largest: impl IntoIterator<Item = [u8; 2]>) -> Self {
        let mut places = Vec::new();
        let mut end = 0;
        for [cpu, nic] in largest {
            let nics = end + usize::from(cpu) + 1;
            places.push([end, nics]);
            end = nics + 2 * (usize::from(nic) + 1);
        }
        places.push([end, end]);
        Clocks {
            times: vec![0; end],
            places,
        }
    }
}

impl<const MANY: bool> Clocks<MANY> {
    /// Position of a CPU.
    #[inline]
    pub fn cpu(&self, rank: u32, cpu: u8) -> usize {
        match MANY {
            true => self.places[rank as usize][0] + usize::from(cpu),
            false => 3 * rank as usize,
        }
    }

    /// Position of the sending side of a NIC.
    #[inline]
    pub fn sending(&self, rank: u32, nic: u8) -> usize {
        match MANY {
            true => self.places[rank as usize][1] + 2 * usize::from(nic),
            false => 3 * rank as usize + 1,
        }
    }

    /// Position of the receiving side of a NIC.
    #[inline]
    pub fn receiving(&self, rank: u32, nic: u8) -> usize {
        self.sending(rank, nic) + 1
    }

    /// Prefetches the times of a rank.
    #[inline]
    pub fn fetch(&self, rank: u32) {
        prefetch(&self.times, self.cpu(rank, 0));
    }

    /// The time at a position.
    #[inline]
    pub fn get(&self, place: usize) -> u64 {
        self.times[place]
    }

    /// Sets the time at a position.
    #[inline]
    pub fn set(&mut self, place: usize, time: u64) {
        self.times[place] = time;
    }

    /// Raises the time at a position to at least this.
    #[inline]
    pub fn raise(&mut self, place: usize, time: u64) {
        self.times[place] = self.times[place].max(time);
    }

    /// When the last CPU of each rank becomes free.
    pub fn finish(&self) -> Vec<u64> {
        if !MANY {
            return self.times.iter().step_by(3).copied().collect();
        }
        let ranks = self.places.iter().take(self.places.len() - 1);
        ranks
            .map(|&[cpus, nics]| self.times[cpus..nics].iter().copied().max().unwrap_or(0))
            .collect()
    }
}
