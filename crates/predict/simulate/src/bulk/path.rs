//! What a finish time was made of: the critical path back through ranks and phases to the noise
//! that lengthened it.

use idlewave_noise::Charge;

/// When each rank ended a phase, and what determined that time.
#[derive(Clone, Debug)]
struct PhaseNotes {
    /// When each rank ended the phase.
    after: Vec<u64>,
    /// The rank whose start of the phase lies on the path.
    from: Vec<u32>,
    /// What lies on the path besides communication: rank, part, nanoseconds; sorted by rank.
    parts: Vec<(u32, Part, u64)>,
}

/// What time on a path was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Work,
    Noise(u32),
}

/// Notes on the current phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    from: Vec<u32>,
    parts: Vec<(u32, Part, u64)>,
    /// Noise on the sending side: rank, message before which it struck, charge.
    sending: Vec<(u32, u32, Charge)>,
    /// Whether the phase is an exchange; the noise on the path is then known only at its end.
    exchange: bool,
}

impl Notes {
    fn begin(&mut self, ranks: usize, exchange: bool) {
        self.from = (0..ranks as u32).collect();
        self.parts.clear();
        self.sending.clear();
        self.exchange = exchange;
    }

    /// Noise on a rank before message number `message`; ranks come in order, and so do the messages
    /// of each rank.
    pub fn charge(&mut self, rank: usize, message: usize, charge: Charge) {
        match self.exchange {
            true => self.sending.push((rank as u32, message as u32, charge)),
            false => {
                let part = Part::Noise(charge.source);
                self.parts.push((rank as u32, part, charge.ns));
            }
        }
    }

    /// A rank computed.
    pub fn work(&mut self, rank: usize, ns: u64) {
        self.parts.push((rank as u32, Part::Work, ns));
    }

    /// The time of `rank` was determined by the start of rank `from`, its messages up to `until`,
    /// its computation, and the noise `taken` that struck `rank` itself at the end.
    pub fn way(
        &mut self,
        rank: usize,
        from: usize,
        until: Option<usize>,
        computed: u64,
        taken: &[Charge],
    ) {
        let own = rank as u32;
        self.from[rank] = from as u32;
        if computed > 0 {
            self.parts.push((own, Part::Work, computed));
        }
        if let Some(until) = until {
            let from = from as u32;
            let begin = self.sending.partition_point(|s| s.0 < from);
            for i in begin..self.sending.len() {
                let (there, message, charge) = self.sending[i];
                if there != from || message as usize > until {
                    break;
                }
                self.parts
                    .push((own, Part::Noise(charge.source), charge.ns));
            }
        }
        let taken = taken.iter().map(|c| (own, Part::Noise(c.source), c.ns));
        self.parts.extend(taken);
    }
}

/// Keeps what determined the times of all ranks: about 12 bytes per rank and phase.
#[derive(Clone, Debug)]
pub struct Record {
    before: Vec<u64>,
    phases: Vec<PhaseNotes>,
    notes: Notes,
}

/// What the path to a finish time was spent on. The parts add up to `finish_ns - begin_ns` exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalPath {
    /// The rank at which the path begins.
    pub first_rank: u32,
    /// When it begins, in nanoseconds.
    pub begin_ns: u64,
    /// The rank that finished last.
    pub last_rank: u32,
    /// When it finished, in nanoseconds.
    pub finish_ns: u64,
    /// Undisturbed computation.
    pub work_ns: u64,
    /// Messages: CPU time, wire, and waiting for their turn.
    pub communication_ns: u64,
    /// Noise by the number of its source in the model, each source once, largest first. One-off
    /// delays have the number after the last source.
    pub noise_ns: Vec<(u32, u64)>,
    /// How often the path passes from one rank to another.
    pub hops: u64,
}

impl Record {
    /// A record that starts at these times.
    pub(super) fn new(times: &[u64]) -> Self {
        Record {
            before: times.to_vec(),
            phases: Vec::new(),
            notes: Notes::default(),
        }
    }

    /// Notes for the next phase.
    pub(super) fn phase(&mut self, exchange: bool) -> &mut Notes {
        self.notes.begin(self.before.len(), exchange);
        &mut self.notes
    }

    /// Ends the phase at these times.
    pub(super) fn end(&mut self, times: &[u64]) {
        let mut parts = std::mem::take(&mut self.notes.parts);
        parts.sort_by_key(|p| p.0);
        self.phases.push(PhaseNotes {
            after: times.to_vec(),
            from: std::mem::take(&mut self.notes.from),
            parts,
        });
    }

    /// The path to the rank that finished last (of several, the lowest), back to where the record
    /// begins. `None` if nothing was recorded.
    pub fn critical_path(&self) -> Option<CriticalPath> {
        let last = self.phases.last()?;
        let latest = (0..last.after.len()).rev().max_by_key(|&r| last.after[r])?;
        let mut path = CriticalPath {
            first_rank: 0,
            begin_ns: 0,
            last_rank: latest as u32,
            finish_ns: last.after[latest],
            work_ns: 0,
            communication_ns: 0,
            noise_ns: Vec::new(),
            hops: 0,
        };
        let mut rank = latest as u32;
        let mut noise: Vec<(u32, u64)> = Vec::new();
        for (at, phase) in self.phases.iter().enumerate().rev() {
            let before = match at.checked_sub(1) {
                Some(earlier) => &self.phases[earlier].after,
                None => &self.before,
            };
            let from = phase.from[rank as usize];
            let mut rest = phase.after[rank as usize] - before[from as usize];
            let begin = phase.parts.partition_point(|p| p.0 < rank);
            for &(_, part, ns) in phase.parts[begin..].iter().take_while(|p| p.0 == rank) {
                rest -= ns;
                match part {
                    Part::Work => path.work_ns += ns,
                    Part::Noise(source) => match noise.iter_mut().find(|n| n.0 == source) {
                        Some(sum) => sum.1 += ns,
                        None => noise.push((source, ns)),
                    },
                }
            }
            path.communication_ns += rest;
            path.hops += u64::from(from != rank);
            rank = from;
        }
        noise.sort_by_key(|&(source, ns)| (std::cmp::Reverse(ns), source));
        path.noise_ns = noise;
        path.first_rank = rank;
        path.begin_ns = self.before[rank as usize];
        Some(path)
    }
}
