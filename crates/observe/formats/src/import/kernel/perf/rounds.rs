//! Events in order of time.
//!
//! perf empties one CPU's buffer after the other, in rounds. What it finds in a round is later than
//! everything that was there when the round before began, so after each round the events up to the
//! latest one of the round before can go on (tools/perf/util/ordered-events.c says why).

use crate::import::kernel::ImportError;
use idlewave_units::Cpu;

/// Most bytes held back. Two rounds of 256 CPUs with perf's usual buffers of 512 KiB; with more, the
/// earlier half goes on, still in order for each CPU.
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
    /// So many events were lost.
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
    /// The same when the last round ended.
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

    /// Takes a loss, which comes before an event of the same time if it is taken first.
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
