//! One stream of Poisson events on every CPU, for many CPUs at once.
//!
//! The state of a [`Timeline`](crate::Timeline) of such a CPU fits in four numbers, and the events
//! of several CPUs can be drawn together. The draws are the same: same seed, same events.

use crate::draw::exponential;
use crate::events::FURTHER;
use crate::lengths::{Drawn, LengthSet};
use crate::model::{Clock, Scope};
use crate::noise::Noise;
#[cfg(target_arch = "x86_64")]
use crate::philox::philox4x32_each_avx2;
use crate::philox::{LANES, philox4x32_each, philox4x32_one};
use crate::stream::{Place, Process, Stream};

/// The only stream of a [`Noise`]: Poisson, on every CPU, stopping the rank completely.
#[derive(Clone, Copy, Debug)]
pub struct LoneStream<'a> {
    key: [u32; 2],
    gap_ns: f64,
    stream: &'a Stream,
    lengths: &'a LengthSet,
}

/// Events of [`LANES`] CPUs, one for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Struck {
    /// From the start of the previous event (for the first: from 0), in nanoseconds.
    pub gap_ns: [u64; LANES],
    /// Length in nanoseconds.
    pub length_ns: [u64; LANES],
}

impl Noise {
    /// Whether nothing can ever strike.
    pub fn is_silent(&self) -> bool {
        self.streams.is_empty()
    }

    /// The stream of this noise if it has exactly one, with Poisson events that strike every CPU by
    /// the wall clock and stop the rank completely.
    pub fn lone_stream(&self) -> Option<LoneStream<'_>> {
        let (Clock::Wall, [stream]) = (self.clock, &self.streams[..]) else {
            return None;
        };
        let plain =
            stream.scope == Scope::EachCpu && stream.keeps == 0 && stream.strikes.is_empty();
        match &stream.process {
            Process::Poisson { gap_ns, lengths } if plain => Some(LoneStream {
                key: self.key,
                gap_ns: *gap_ns,
                stream,
                lengths,
            }),
            _ => None,
        }
    }
}

impl LoneStream<'_> {
    /// The word that distinguishes the draws of a CPU from those of others.
    pub fn key_place(&self, place: Place) -> u32 {
        self.stream.key_place(place)
    }

    /// Event number `indices[lane]` (from 0) of the CPU with the word `places[lane]`, for every
    /// lane.
    #[inline]
    pub fn draw(&self, places: &[u32; LANES], indices: &[u64; LANES]) -> Struck {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the function requires AVX2 only, which was detected above.
            return unsafe { self.draw_avx2(places, indices) };
        }
        self.draw_portable(places, indices)
    }

    /// [`LoneStream::draw`] without special instructions, as its reference.
    pub fn draw_portable(&self, places: &[u32; LANES], indices: &[u64; LANES]) -> Struck {
        let counters = self.counters(places, indices);
        self.events(places, indices, &philox4x32_each(&counters, self.key))
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn draw_avx2(&self, places: &[u32; LANES], indices: &[u64; LANES]) -> Struck {
        let counters = self.counters(places, indices);
        // SAFETY: the caller guarantees AVX2.
        let words = unsafe { philox4x32_each_avx2(&counters, self.key) };
        self.events(places, indices, &words)
    }

    #[inline(always)]
    fn counters(&self, places: &[u32; LANES], indices: &[u64; LANES]) -> [[u64; LANES]; 4] {
        [
            indices.map(|i| i & 0xFFFF_FFFF),
            indices.map(|i| i >> 32),
            [u64::from(self.stream.id); LANES],
            places.map(u64::from),
        ]
    }

    #[inline(always)]
    fn events(
        &self,
        places: &[u32; LANES],
        indices: &[u64; LANES],
        words: &[[u64; LANES]; 4],
    ) -> Struck {
        let mut gaps = [0.0; LANES];
        for (gap, (&high, &low)) in gaps.iter_mut().zip(words[0].iter().zip(&words[1])) {
            *gap = self.gap_ns * exponential(high, low) + 0.5;
        }
        let mut struck = Struck {
            // The cast saturates.
            gap_ns: gaps.map(|gap| gap as u64),
            length_ns: [0; LANES],
        };
        for lane in 0..LANES {
            struck.length_ns[lane] = match self.lengths.draw(words[2][lane], words[3][lane]) {
                (_, Drawn::Length(ns)) => ns,
                (_, Drawn::Law(law)) => {
                    let index = indices[lane];
                    let id = self.stream.id | FURTHER;
                    let counter = [index as u32, (index >> 32) as u32, id, places[lane]];
                    let [high, low, ..] = philox4x32_one(counter, self.key);
                    self.lengths.law(law).length(exponential(high, low))
                }
            };
        }
        struck
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use crate::model::{Arrivals, Lengths, NoiseModel, Source, Together};

    fn source(arrivals: Arrivals, length: Lengths) -> Source {
        Source::task("x", arrivals, Some(length))
    }

    fn poisson(rate_per_s: f64, length: Lengths) -> Source {
        source(Arrivals::Poisson { rate_per_s }, length)
    }

    fn noise(sources: Vec<Source>) -> Noise {
        let model = NoiseModel {
            cpus_per_node: 4,
            sources,
            ..NoiseModel::default()
        };
        Noise::new(&model, 77, 3, |_| true).unwrap()
    }

    #[test]
    fn eight_cpus_at_a_time_meet_the_events_of_one_after_the_other() {
        let mixed = noise(vec![
            poisson(9e4, Lengths::Fixed { ns: 30 }),
            poisson(2e4, Lengths::Exponential { mean_ns: 800.0 }),
        ]);
        let shared = noise(vec![Source {
            together: Together::Node,
            ..poisson(1e5, Lengths::Fixed { ns: 7 })
        }]);
        for noise in [&mixed, &shared] {
            let lone = noise.lone_stream().unwrap();
            let cpus: [u32; LANES] = [3, 0, 17, 4, 5, 100, 99, 1 << 31];
            let places = cpus.map(|cpu| lone.key_place(noise.place(cpu)));
            let stream = &noise.streams[0];
            let mut plain = cpus.map(|cpu| Events::new(noise, stream, noise.place(cpu)));
            // Lanes are at different events of their CPUs.
            let mut indices: [u64; LANES] = std::array::from_fn(|lane| lane as u64);
            let mut begins = [0; LANES];
            for (lane, events) in plain.iter_mut().enumerate() {
                for _ in 0..lane {
                    begins[lane] = events.next(noise, stream, noise.place(cpus[lane])).begin;
                }
            }
            for _ in 0..200 {
                let struck = lone.draw(&places, &indices);
                assert_eq!(struck, lone.draw_portable(&places, &indices));
                for lane in 0..LANES {
                    let event = plain[lane].next(noise, stream, noise.place(cpus[lane]));
                    begins[lane] += struck.gap_ns[lane];
                    assert_eq!(
                        (begins[lane], struck.length_ns[lane]),
                        (event.begin, event.length)
                    );
                    indices[lane] += 1;
                }
            }
        }
    }

    #[test]
    fn events_beyond_the_first_thirty_two_bits_of_their_number_are_others() {
        let noise = noise(vec![poisson(1e5, Lengths::Exponential { mean_ns: 5e3 })]);
        let lone = noise.lone_stream().unwrap();
        let near = lone.draw(&[1; LANES], &[5; LANES]);
        let far = lone.draw(&[1; LANES], &[5 + (1 << 32); LANES]);
        assert_ne!(near.gap_ns, far.gap_ns);
        assert_ne!(near.length_ns, far.length_ns);
    }

    #[test]
    fn other_noise_has_no_lone_stream() {
        let fixed = || Lengths::Fixed { ns: 5 };
        let regular = Arrivals::Periodic {
            period_ns: 1_000,
            jitter_ns: 0,
            phase_ns: None,
        };
        let alone = |source| noise(vec![source]).lone_stream().is_some();
        assert!(alone(poisson(10.0, fixed())));
        assert!(!alone(source(regular.clone(), fixed())));
        assert!(!alone(Source {
            keeps: 0.5,
            ..poisson(10.0, fixed())
        }));
        assert!(!alone(Source {
            strikes: Scope::OneCpuOfNode,
            ..poisson(10.0, fixed())
        }));
        assert!(!alone(Source {
            cpus: Some(vec![1]),
            ..poisson(10.0, fixed())
        }));
        let two = noise(vec![poisson(10.0, fixed()), source(regular, fixed())]);
        assert!(two.lone_stream().is_none() && !two.is_silent());
        assert!(noise(vec![]).lone_stream().is_none() && noise(vec![]).is_silent());
    }
}
