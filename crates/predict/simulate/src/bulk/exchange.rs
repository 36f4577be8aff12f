//! Exchanges of all ranks at once: every rank sends, computes if there is work, and receives.

use super::path::Notes;
use crate::Work;
use crate::goal::Parameters;
use idlewave_noise::{Charge, Noise, Timeline};
use rayon::prelude::*;

/// Least number of ranks per thread.
const SHARE: usize = 2_048;

/// Cost of a message of one length, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// CPU time of the sender: o + (n - 1) O.
    pub send: u64,
    /// CPU time of the receiver: o.
    pub take: u64,
    /// Least time between the starts of two sends: g + (n - 1) G.
    pub gap: u64,
    /// Latency: L.
    pub latency: u64,
    /// Transfer time: (n - 1) G.
    pub transfer: u64,
    /// Whether the sender waits for the receiver.
    pub rendezvous: bool,
}

impl Cost {
    /// Cost of a message of `bytes` bytes; `None` if it exceeds 64-bit nanoseconds.
    pub fn of(parameters: &Parameters, bytes: u64) -> Option<Cost> {
        let after_first = bytes.saturating_sub(1);
        let transfer = parameters.gap_per_byte.cost(after_first)?;
        let copy = parameters.overhead_per_byte.cost(after_first)?;
        Some(Cost {
            send: parameters.overhead.get().checked_add(copy)?,
            take: parameters.overhead.get(),
            gap: parameters.gap.get().checked_add(transfer)?,
            latency: parameters.latency.get(),
            transfer,
            rendezvous: bytes > parameters.rendezvous.get(),
        })
    }
}

/// Which rank sends to which, in one or more directions.
pub(super) trait Partners: Sync {
    /// Largest number of messages of a rank.
    fn directions(&self) -> usize;
    /// The rank that `rank` sends to.
    fn target(&self, rank: usize, direction: usize) -> Option<usize>;
    /// The rank that `rank` receives from: the one whose target it is.
    fn source(&self, rank: usize, direction: usize) -> Option<usize>;
}

/// Times and CPUs of all ranks.
pub(super) struct Ranks<'a> {
    pub noise: &'a Noise,
    pub times: Vec<u64>,
    pub cpus: Vec<Timeline>,
    /// When each rank began the exchange.
    begin: Vec<u64>,
    /// When each rank begins to wait.
    ready: Vec<u64>,
    /// When the sender's CPU is done with each message, rank by rank.
    sent: Vec<u64>,
}

/// What determined the time of a rank: the rank itself or another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// What the rank did itself since it began.
    Own,
    /// Its own start: others waited for it, and it waited for them.
    OwnBegin,
    /// What this rank did until it had sent the message in this direction.
    Sent(usize, usize),
    /// What this rank did until it began to wait.
    Waited(usize),
    /// The time at which this rank began.
    Began(usize),
}

impl<'a> Ranks<'a> {
    pub fn new(noise: &'a Noise, ranks: u32) -> Self {
        let n = ranks as usize;
        Ranks {
            noise,
            times: vec![0; n],
            cpus: (0..ranks)
                .map(|r| Timeline::new(noise, noise.place(r)))
                .collect(),
            begin: Vec::new(),
            ready: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Every rank computes.
    pub fn compute(&mut self, work: &Work, notes: Option<&mut Notes>) {
        let noise = self.noise;
        if let Some(notes) = notes {
            for (rank, (t, cpu)) in self.times.iter_mut().zip(&mut self.cpus).enumerate() {
                *t = cpu.end(noise, *t, work.of(rank), |c| notes.charge(rank, 0, c));
                notes.work(rank, work.of(rank));
            }
            return;
        }
        let ranks = self.times.par_iter_mut().zip(&mut self.cpus).enumerate();
        ranks
            .with_min_len(SHARE)
            .for_each(|(rank, (t, cpu))| *t = cpu.end(noise, *t, work.of(rank), |_| {}));
    }

    /// Time passes for every rank.
    pub fn pause(&mut self, ns: u64) {
        for t in &mut self.times {
            *t = t.saturating_add(ns);
        }
    }

    /// Every rank sends to its partners, computes if there is work, and waits for its partners.
    pub fn exchange<P: Partners>(
        &mut self,
        partners: &P,
        cost: Cost,
        meanwhile: Option<&Work>,
        mut notes: Option<&mut Notes>,
    ) {
        let directions = partners.directions();
        if directions == 0 {
            if let Some(work) = meanwhile {
                self.compute(work, notes);
            }
            return;
        }
        self.begin.clone_from(&self.times);
        self.sent.resize(self.times.len() * directions, 0);
        let noise = self.noise;
        if let Some(notes) = notes.as_deref_mut() {
            let rows = self.sent.chunks_exact_mut(directions);
            let ranks = self.times.iter_mut().zip(&mut self.cpus).zip(rows);
            for (rank, ((t, cpu), row)) in ranks.enumerate() {
                let charge = |message, c| notes.charge(rank, message, c);
                send(noise, partners, cost, meanwhile, rank, t, cpu, row, charge);
            }
        } else {
            let rows = self.sent.par_chunks_exact_mut(directions);
            let ranks = self.times.par_iter_mut().zip(&mut self.cpus).zip(rows);
            ranks
                .enumerate()
                .with_min_len(SHARE)
                .for_each(|(rank, ((t, cpu), row))| {
                    send(
                        noise,
                        partners,
                        cost,
                        meanwhile,
                        rank,
                        t,
                        cpu,
                        row,
                        |_, _| {},
                    );
                });
        }
        if cost.rendezvous {
            self.ready.clone_from(&self.times);
        }
        let there = There {
            begin: &self.begin,
            ready: &self.ready,
            sent: &self.sent,
            directions,
            overlapped: meanwhile.is_some(),
        };
        if let Some(notes) = notes {
            let mut taken: Vec<Charge> = Vec::new();
            for (rank, (t, cpu)) in self.times.iter_mut().zip(&mut self.cpus).enumerate() {
                taken.clear();
                let origin = wait(
                    noise, partners, cost, &there, rank, t, cpu, &mut taken, true,
                );
                let work = |rank: usize| meanwhile.map_or(0, |w| w.of(rank));
                note(notes, rank, origin, directions, work, &taken);
            }
        } else {
            let ranks = self.times.par_iter_mut().zip(&mut self.cpus).enumerate();
            ranks.with_min_len(SHARE).for_each(|(rank, (t, cpu))| {
                wait(
                    noise,
                    partners,
                    cost,
                    &there,
                    rank,
                    t,
                    cpu,
                    &mut Vec::new(),
                    false,
                );
            });
        }
    }
}

/// The state of the other ranks that a waiting rank depends on.
struct There<'a> {
    begin: &'a [u64],
    ready: &'a [u64],
    sent: &'a [u64],
    directions: usize,
    overlapped: bool,
}

/// All sends of a rank, then its computation. `charge` gets each piece of noise with the number of
/// the message before which it struck; noise during the computation counts as after the last
/// message.
#[allow(clippy::too_many_arguments)]
#[inline]
fn send<P: Partners>(
    noise: &Noise,
    partners: &P,
    cost: Cost,
    meanwhile: Option<&Work>,
    rank: usize,
    t: &mut u64,
    cpu: &mut Timeline,
    row: &mut [u64],
    mut charge: impl FnMut(usize, Charge),
) {
    let mut wire_free = 0;
    for (direction, sent) in row.iter_mut().enumerate() {
        if partners.target(rank, direction).is_none() {
            continue;
        }
        let start = wire_free.max(*t);
        wire_free = start.saturating_add(cost.gap);
        *t = cpu.end(noise, start, cost.send, |c| charge(direction, c));
        *sent = *t;
    }
    if let Some(work) = meanwhile {
        *t = cpu.end(noise, *t, work.of(rank), |c| charge(row.len(), c));
    }
}

/// The wait of a rank for all its messages, sent and received. Returns what determined its time.
#[allow(clippy::too_many_arguments)]
#[inline]
fn wait<P: Partners>(
    noise: &Noise,
    partners: &P,
    cost: Cost,
    there: &There<'_>,
    rank: usize,
    t: &mut u64,
    cpu: &mut Timeline,
    taken: &mut Vec<Charge>,
    recorded: bool,
) -> Origin {
    let mut origin = Origin::Own;
    // A torus has few directions, so messages are normally sorted without allocation.
    let mut coming: [(u64, usize, Origin); MOST_AT_ONCE] = [(0, 0, Origin::Own); MOST_AT_ONCE];
    let mut many = Vec::new();
    let arrivals = (0..there.directions).filter_map(|direction| {
        let from = partners.source(rank, direction)?;
        let (time, origin) = arrival(cost, there, rank, from, direction);
        Some((time, direction, origin))
    });
    let coming = match there.directions <= MOST_AT_ONCE {
        true => {
            let mut n = 0;
            for message in arrivals {
                coming[n] = message;
                n += 1;
            }
            &mut coming[..n]
        }
        false => {
            many.extend(arrivals);
            &mut many[..]
        }
    };
    coming.sort_unstable_by_key(|&(time, direction, _)| (time, direction));
    for &mut (time, _, from) in coming {
        if time > *t {
            (*t, origin) = (time, from);
            taken.clear();
        }
        *t = cpu.end(noise, *t, cost.take, |c| {
            if recorded {
                taken.push(c);
            }
        });
    }
    if cost.rendezvous {
        for direction in 0..there.directions {
            let Some(to) = partners.target(rank, direction) else {
                continue;
            };
            let (start, from) = transfer(cost, there, to, rank, direction);
            let done = start.saturating_add(cost.transfer);
            if done > *t {
                *t = done;
                taken.clear();
                // Seen from the sender.
                origin = match from {
                    Origin::OwnBegin if there.overlapped => Origin::Waited(to),
                    Origin::OwnBegin => Origin::Began(to),
                    Origin::Sent(_, direction) => Origin::Sent(rank, direction),
                    other => other,
                };
            }
        }
    }
    origin
}

/// Largest number of messages of a rank that are sorted without allocation.
const MOST_AT_ONCE: usize = 8;

/// When a message has arrived, and what determined that time.
#[inline]
fn arrival(
    cost: Cost,
    there: &There<'_>,
    to: usize,
    from: usize,
    direction: usize,
) -> (u64, Origin) {
    let (start, origin) = match cost.rendezvous {
        true => transfer(cost, there, to, from, direction),
        false => {
            let sent = there.sent[from * there.directions + direction];
            (sent, Origin::Sent(from, direction))
        }
    };
    let travel = cost.latency.saturating_add(cost.transfer);
    (start.saturating_add(travel), origin)
}

/// When the data of a rendezvous message leaves: the sender asks, the receiver answers once it has
/// got that far, and then the sender must be ready.
#[inline]
fn transfer(
    cost: Cost,
    there: &There<'_>,
    to: usize,
    from: usize,
    direction: usize,
) -> (u64, Origin) {
    let asked = there.sent[from * there.directions + direction].saturating_add(cost.latency);
    // A rank that computes meanwhile answers only once it waits.
    let (posted, by_receiver) = match there.overlapped {
        true => (there.ready[to], Origin::Waited(to)),
        false => (there.begin[to], Origin::OwnBegin),
    };
    let (agreed, origin) = match posted > asked {
        true => (posted, by_receiver),
        false => (asked, Origin::Sent(from, direction)),
    };
    let answered = agreed.saturating_add(cost.latency);
    match there.overlapped && there.ready[from] > answered {
        true => (there.ready[from], Origin::Waited(from)),
        false => (answered, origin),
    }
}

/// Notes what determined the time of a rank, and the noise on the path to it.
fn note(
    notes: &mut Notes,
    rank: usize,
    origin: Origin,
    directions: usize,
    work: impl Fn(usize) -> u64,
    taken: &[Charge],
) {
    // Noise on the sending side belongs before its message, noise during the computation after all
    // messages.
    let (from, until) = match origin {
        Origin::Own => (rank, Some(directions)),
        Origin::OwnBegin => (rank, None),
        Origin::Began(other) => (other, None),
        Origin::Sent(other, direction) => (other, Some(direction)),
        Origin::Waited(other) => (other, Some(directions)),
    };
    let computed = if until == Some(directions) {
        work(from)
    } else {
        0
    };
    notes.way(rank, from, until, computed, taken);
}
