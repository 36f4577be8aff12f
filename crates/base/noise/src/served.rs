//! The events that a CPU served, one by one: those that a [`Timeline`](crate::Timeline) serves
//! before the work of its rank.

use crate::events::{Event, Events};
use crate::noise::Noise;
use crate::stream::Place;

/// A served event, in nanoseconds from the start of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Number of its source in the model.
    pub source: u32,
    /// When the CPU started to serve it: on arrival, or when the previous event ended.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
}

/// The events of a CPU that stop its rank completely, one after the other. Events that only slow
/// the rank down are not included; they overlap the others.
#[derive(Clone, Debug)]
pub struct ServedEvents {
    place: Place,
    pending: Vec<Pending>,
    /// When the CPU has served all events returned so far.
    free: u64,
}

/// A stream on a CPU, with its next event.
#[derive(Clone, Debug)]
struct Pending {
    /// Its index in the noise.
    stream: usize,
    events: Events,
    next: Event,
}

impl ServedEvents {
    /// The events of a CPU from the start of the simulation.
    pub fn new(noise: &Noise, place: Place) -> Self {
        let pending = noise
            .streams
            .iter()
            .enumerate()
            .filter(|(_, s)| s.keeps == 0 && s.reaches(place))
            .map(|(index, stream)| {
                let mut events = Events::new(noise, stream, place);
                let next = events.next(noise, stream, place);
                Pending {
                    stream: index,
                    events,
                    next,
                }
            })
            .collect();
        ServedEvents {
            place,
            pending,
            free: 0,
        }
    }

    /// The next event that the CPU starts to serve before `until`. `None` if there is none; a later
    /// `until` may change that. Events of length 0 are skipped.
    pub fn next_before(&mut self, noise: &Noise, until: u64) -> Option<Served> {
        loop {
            // If starts are equal, the first stream wins, as on the timeline.
            let pending = self.pending.iter_mut().min_by_key(|p| p.next.begin)?;
            let next = pending.next;
            let begin = self.free.max(next.begin);
            if begin >= until || next.begin == u64::MAX {
                return None;
            }
            let served = Served {
                source: next.source,
                begin,
                end: begin.saturating_add(next.length),
            };
            self.free = served.end;
            let stream = &noise.streams[pending.stream];
            pending.next = pending.events.next(noise, stream, self.place);
            if served.begin < served.end {
                return Some(served);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, Lengths, NoiseModel, Scope, Source, Timeline, Together};
    use idlewave_run::SourceKind;
    use proptest::prelude::*;

    fn source(kind: SourceKind, arrivals: Arrivals, ns: u64) -> Source {
        Source {
            kind,
            name: kind.label().to_owned(),
            strikes: Scope::EachCpu,
            together: Together::Alone,
            cpus: None,
            keeps: 0.0,
            arrivals,
            length: Some(Lengths::Fixed { ns }),
            fit: None,
        }
    }

    fn periodic(period_ns: u64, phase_ns: u64) -> Arrivals {
        Arrivals::Periodic {
            period_ns,
            jitter_ns: 0,
            phase_ns: Some(phase_ns),
        }
    }

    fn noise(sources: Vec<Source>, seed: u64) -> Noise {
        let model = NoiseModel {
            sources,
            ..NoiseModel::default()
        };
        Noise::new(&model, seed, 0, |_| true).unwrap()
    }

    #[test]
    fn an_event_that_comes_while_another_is_served_waits_for_it() {
        let noise = noise(
            vec![
                source(SourceKind::Irq, periodic(1_000, 100), 50),
                source(SourceKind::Task, periodic(1_000, 120), 300),
            ],
            1,
        );
        let mut events = ServedEvents::new(&noise, noise.place(0));
        let mut all = || {
            let e = events.next_before(&noise, 1_150)?;
            Some((e.source, e.begin, e.end))
        };
        let seen: Vec<_> = std::iter::from_fn(&mut all).collect();
        assert_eq!(seen, [(0, 100, 150), (1, 150, 450), (0, 1_100, 1_150)]);
        // The event that arrives at 1120 is served from 1150 on, which is not before 1150.
        let next = events.next_before(&noise, 1_151).unwrap();
        assert_eq!((next.source, next.begin, next.end), (1, 1_150, 1_450));
    }

    proptest! {
        /// What a timeline charges to a computation is what the CPU served during it.
        #[test]
        fn a_timeline_and_its_events_agree(
            seed: u64,
            steps in proptest::collection::vec((0u64..3_000, 1u64..5_000), 1..30),
        ) {
            let noise = noise(vec![
                source(SourceKind::Irq, Arrivals::Poisson { rate_per_s: 3e5 }, 400),
                source(SourceKind::TimerTick, periodic(2_500, 70), 900),
                source(SourceKind::Task, Arrivals::Poisson { rate_per_s: 1e5 }, 2_000),
            ], seed);
            let place = noise.place(0);
            let mut timeline = Timeline::new(&noise, place);
            let mut events = ServedEvents::new(&noise, place);
            let mut served: Vec<Served> = Vec::new();
            let mut now = 0;
            for (waited, work) in steps {
                let start = now + waited;
                let mut charged = [0_u64; 3];
                now = timeline.end(&noise, start, work, |c| charged[c.source as usize] += c.ns);
                while let Some(event) = events.next_before(&noise, now) {
                    prop_assert!(served.last().is_none_or(|l| l.end <= event.begin));
                    served.push(event);
                }
                let mut within = [0_u64; 3];
                for e in &served {
                    within[e.source as usize] += e.end.min(now).saturating_sub(e.begin.max(start));
                }
                prop_assert_eq!(charged, within);
                prop_assert_eq!(charged.iter().sum::<u64>(), now - start - work);
            }
        }
    }
}
