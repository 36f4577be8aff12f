//! Events in order of time.
//!
//! perf empties one CPU's buffer after another, in rounds. What it finds in a round is later than
//! everything that was there when the previous round began. So after each round, the events up to
//! the latest one of the previous round can go on (tools/perf/util/ordered-events.c explains why).

use crate::import::error::ImportError;
use idlewave_units::Cpu;

/// Limit on the bytes held back: two rounds of 256 CPUs with perf's usual buffers of 512 KiB.
/// Beyond it, the earlier half goes on, still in order for each CPU.
const MOST: usize = 256 << 20;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An event with the process and thread that perf saw, if it saw any.
    Event {
        at: u32,
        size: u32,
        thread: Option<(u32, u32)>,
    },
    /// This many events were lost.
    Lost(u64),
}

/// What happened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) time_ns: u64,
    pub(crate) cpu: Cpu,
    pub(crate) what: What,
}

/// Events that are held back until no earlier one can follow.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    /// Time of the latest event.
    latest: u64,
    /// Time of the latest event when the last round ended.
    before: u64,
    spare: Vec<u8>,
}

impl Rounds {
    /// Takes an event.
    #[inline]
    pub(crate) fn event(
        &mut self,
        (time_ns, cpu): (u64, Cpu),
        thread: Option<(u32, u32)>,
        payload: &[u8],
    ) {
        let (at, size) = (self.bytes.len() as u32, payload.len() as u32);
        self.bytes.extend_from_slice(payload);
        self.push(time_ns, cpu, What::Event { at, size, thread });
    }

    /// Takes a loss. Among equal times, it comes before the events that are taken after it.
    pub(crate) fn lost(&mut self, time_ns: u64, cpu: Cpu, count: u64) {
        self.push(time_ns, cpu, What::Lost(count));
    }

    #[inline]
    fn push(&mut self, time_ns: u64, cpu: Cpu, what: What) {
        self.latest = self.latest.max(time_ns);
        self.entries.push(Entry { time_ns, cpu, what });
    }

    /// Whether more is held back than should be: see [`Rounds::halve`].
    #[inline]
    pub(crate) fn full(&self) -> bool {
        self.bytes.len() + self.entries.len() * size_of::<Entry>() > MOST
    }

    /// Ends a round.
    pub(crate) fn finish(
        &mut self,
        emit: impl FnMut(&Entry, &[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let until = std::mem::replace(&mut self.before, self.latest);
        self.pass_on(Some(until), emit)
    }

    /// Passes the earlier half on.
    pub(crate) fn halve(
        &mut self,
        emit: impl FnMut(&Entry, &[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let mut times: Vec<u64> = self.entries.iter().map(|e| e.time_ns).collect();
        let middle = times.len() / 2;
        let until = *times.select_nth_unstable(middle).1;
        self.pass_on(Some(until), emit)
    }

    /// Passes everything on.
    pub(crate) fn end(
        &mut self,
        emit: impl FnMut(&Entry, &[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        self.pass_on(None, emit)
    }

    fn pass_on(
        &mut self,
        until: Option<u64>,
        mut emit: impl FnMut(&Entry, &[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        // Stable: equal times stay in the order of the file, as perf has them.
        self.entries.sort_by_key(|entry| entry.time_ns);
        let count = match until {
            Some(until) => self.entries.partition_point(|e| e.time_ns <= until),
            None => self.entries.len(),
        };
        for entry in &self.entries[..count] {
            let payload = match entry.what {
                What::Event { at, size, .. } => &self.bytes[at as usize..][..size as usize],
                What::Lost(_) => &[],
            };
            emit(entry, payload)?;
        }
        self.entries.drain(..count);
        self.spare.clear();
        for entry in &mut self.entries {
            if let What::Event { at, size, .. } = &mut entry.what {
                let begin = std::mem::replace(at, self.spare.len() as u32) as usize;
                self.spare
                    .extend_from_slice(&self.bytes[begin..][..*size as usize]);
            }
        }
        std::mem::swap(&mut self.bytes, &mut self.spare);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    type Seen = Vec<(u64, u32, Vec<u8>)>;

    /// Notes what comes out.
    fn note(seen: &mut Seen) -> impl FnMut(&Entry, &[u8]) -> Result<(), ImportError> {
        |entry, payload| {
            seen.push((entry.time_ns, entry.cpu.get(), payload.to_vec()));
            Ok(())
        }
    }

    fn event(rounds: &mut Rounds, (time, cpu, payload): &(u64, u32, Vec<u8>)) {
        rounds.event((*time, Cpu::new(*cpu)), None, payload);
    }

    proptest! {
        /// perf empties one buffer after another, at rising times, and then starts over.
        #[test]
        fn events_come_out_in_order_and_few_are_held_back(
            gaps in proptest::collection::vec((0..4_u32, 0..5_u64), 0..200),
            stops in proptest::collection::vec(0..9_u64, 0..40),
        ) {
            let mut time = 0;
            let mut all: Seen = Vec::new();
            for (n, (cpu, gap)) in gaps.into_iter().enumerate() {
                time += gap;
                all.push((time, cpu, vec![n as u8; n % 5]));
            }
            let mut waiting = all.clone();
            let (mut rounds, mut seen, mut now) = (Rounds::default(), Vec::new(), 0);
            let mut take = |rounds: &mut Rounds, cpu: u32, until: u64| {
                let there = |e: &(u64, u32, Vec<u8>)| e.1 == cpu && e.0 <= until;
                waiting.iter().filter(|e| there(e)).for_each(|e| event(rounds, e));
                waiting.retain(|e| !there(e));
            };
            for stops in stops.chunks_exact(4) {
                let latest = rounds.latest;
                for (cpu, stop) in stops.iter().enumerate() {
                    now += stop;
                    take(&mut rounds, cpu as u32, now);
                }
                rounds.finish(note(&mut seen)).unwrap();
                prop_assert!(rounds.entries.iter().all(|e| e.time_ns > latest));
            }
            (0..4).for_each(|cpu| take(&mut rounds, cpu, u64::MAX));
            rounds.end(note(&mut seen)).unwrap();
            prop_assert!(seen.is_sorted_by_key(|e| e.0));
            seen.sort();
            all.sort();
            prop_assert_eq!(seen, all);
        }
    }

    #[test]
    fn too_much_is_halved_by_time_and_losses_stay_before_their_event() {
        let mut rounds = Rounds::default();
        for time in [5, 3, 9, 1, 7] {
            rounds.lost(time, Cpu::new(0), 1);
            event(&mut rounds, &(time, 0, vec![time as u8]));
        }
        assert!(!rounds.full());
        let mut seen = Vec::new();
        rounds.halve(note(&mut seen)).unwrap();
        let found: Vec<_> = seen.iter().map(|(time, _, p)| (*time, p.len())).collect();
        assert_eq!(found, [(1, 0), (1, 1), (3, 0), (3, 1), (5, 0), (5, 1)]);
        seen.clear();
        rounds.end(note(&mut seen)).unwrap();
        let found: Vec<_> = seen.iter().map(|(time, _, p)| (*time, p.clone())).collect();
        assert_eq!(
            found,
            [(7, vec![]), (7, vec![7]), (9, vec![]), (9, vec![9])]
        );
    }

    #[test]
    fn what_is_held_back_is_bounded() {
        let mut rounds = Rounds::default();
        let (mut taken, mut seen) = (0_u64, 0);
        let payload = vec![0; 1 << 16];
        while taken < 6000 {
            rounds.event((taken, Cpu::new(0)), None, &payload);
            taken += 1;
            if rounds.full() {
                rounds
                    .halve(|_, _| {
                        seen += 1;
                        Ok(())
                    })
                    .unwrap();
            }
            assert!(rounds.bytes.len() <= MOST + payload.len());
        }
        assert!(seen > 2000);
    }
}
