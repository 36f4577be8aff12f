//! When each CPU and NIC of every rank is free again.

use super::prefetch::prefetch;
use super::schedule::{Kind, Record};

/// Times in nanoseconds. With one CPU and one NIC per rank (not `MANY`) a rank is three numbers beside each other.
pub(crate) struct Clocks<const MANY: bool> {
    times: Vec<u64>,
    /// Where the CPUs of each rank begin, and its NICs, two numbers each. One more than there are ranks.
    places: Vec<[usize; 2]>,
}

/// The largest CPU and NIC of each rank that its operations use, and the messages that are sent to it: what arrives takes the
/// CPU and the NIC of the receiver that have the sender's numbers.
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
    /// One CPU and one NIC for each rank.
    pub fn single(ranks: u32) -> Self {
        Clocks {
            times: vec![0; 3 * ranks as usize],
            places: Vec::new(),
        }
    }
}

impl Clocks<true> {
    /// CPUs and NICs of each rank, by the largest of both.
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
    /// Place of a CPU.
    #[inline]
    pub fn cpu(&self, rank: u32, cpu: u8) -> usize {
        match MANY {
            true => self.places[rank as usize][0] + usize::from(cpu),
            false => 3 * rank as usize,
        }
    }

    /// Place of the sending side of a NIC.
    #[inline]
    pub fn sending(&self, rank: u32, nic: u8) -> usize {
        match MANY {
            true => self.places[rank as usize][1] + 2 * usize::from(nic),
            false => 3 * rank as usize + 1,
        }
    }

    /// Place of the receiving side of a NIC.
    #[inline]
    pub fn receiving(&self, rank: u32, nic: u8) -> usize {
        self.sending(rank, nic) + 1
    }

    /// The times of a rank are needed soon.
    #[inline]
    pub fn fetch(&self, rank: u32) {
        prefetch(&self.times, self.cpu(rank, 0));
    }

    /// The time at a place.
    #[inline]
    pub fn get(&self, place: usize) -> u64 {
        self.times[place]
    }

    /// Sets the time at a place.
    #[inline]
    pub fn set(&mut self, place: usize, time: u64) {
        self.times[place] = time;
    }

    /// Not free before this time.
    #[inline]
    pub fn raise(&mut self, place: usize, time: u64) {
        self.times[place] = self.times[place].max(time);
    }

    /// When the last CPU of each rank is free.
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
