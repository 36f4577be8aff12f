//! The verdict: candidates replayed in full, with intervals, next to a batch system's default.
//!
//! The search uses loads only; here every candidate is replayed. If that would take too long, only
//! the batch system's default and the candidates with the best bounds are; the others count as left
//! out.

use crate::error::PlaceError;
use crate::job::{Candidate, Job, MemoryVerdict};
use crate::lower::lower_bound;
use crate::order::Order;
use crate::random::Random;
use crate::select::Selection;
use idlewave_network::{Estimate, Network, NetworkError, Played, Program, Stage, play, play_from};
use idlewave_topology::NodeIndex;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Most operations replayed in all: a few seconds on one core.
const MOST_PLAYED: u64 = 5_000_000;
/// Fewest placements replayed, however long that takes.
const LEAST_PLAYED: usize = 8;
/// Most operations replayed at the same time, whatever the number of cores: a replay keeps some 85
/// bytes per operation.
const MOST_AT_ONCE: u64 = 20_000_000;

/// Range of the ranks' start times, as a share of the replayed time, to test whether the result
/// depends on ranks being in lockstep.
const APART: f64 = 0.01;

/// Times within this factor count as equal: half a percent does not justify another order of ranks.
const SAME: f64 = 1.005;

/// A replayed placement.
#[derive(Clone, Debug)]
pub struct Advised {
    /// The placement.
    pub candidate: Candidate,
    /// Its time with interval, and its bottleneck.
    pub estimate: Estimate,
    /// Its time if ranks start up to a hundredth of it apart, seconds; only for the fastest one and
    /// the default.
    pub apart_seconds: Option<f64>,
    /// Lower bound on the time of any placement with as many ranks per node on as many nodes,
    /// seconds.
    pub lower_bound_seconds: f64,
    /// Node-seconds: its time multiplied by its number of nodes.
    pub node_seconds: f64,
    /// Whether its time differs from the best one by no more than the uncertainty.
    pub same_as_best: bool,
}

impl Advised {
    /// Whether it is a batch system's default for this number of ranks per node: nodes in order,
    /// filled one after the other.
    pub fn is_baseline(&self) -> bool {
        is_baseline(&self.candidate)
    }
}

fn is_baseline(candidate: &Candidate) -> bool {
    let how = &candidate.how;
    how.selection == Selection::First && how.order == Order::Block && !how.improved && !how.even
}

fn fits(candidate: &Candidate) -> bool {
    !matches!(candidate.memory, MemoryVerdict::Exceeds { .. })
}

/// A batch system's default: as many ranks per node as its cores and memory allow.
fn default_of<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Option<usize> {
    let baselines = candidates.enumerate().filter(|(_, c)| is_baseline(c));
    let most = baselines.max_by_key(|(_, c)| (fits(c), c.ranks_per_node));
    most.map(|(at, _)| at)
}

/// The result.
#[derive(Clone, Debug)]
pub struct Advice {
    /// By ranks per node, fastest first among equals.
    pub rows: Vec<Advised>,
    /// Index of the fastest one that fits into memory, or of the fastest of all if none does.
    pub best: usize,
    /// Index of a batch system's default: nodes in order, using all of their cores as far as memory
    /// allows.
    pub default: usize,
    /// Candidates that were not replayed.
    pub left_out: usize,
}

/// A program on a network, repeated `times` times.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The network.
    pub network: &'a Network,
    /// The program.
    pub program: &'a Program,
    /// Number of repetitions.
    pub times: f64,
}

/// A placement with its complete replay.
pub struct Replayed {
    /// The stage.
    pub stage: Stage,
    /// The result of the replay.
    pub played: Played,
}

impl Subject<'_> {
    /// Replays a placement.
    ///
    /// # Errors
    /// Nodes that are not connected, or a deadlock of ranks.
    pub fn replay(
        &self,
        candidate: &Candidate,
        measured_with: u32,
    ) -> Result<Replayed, PlaceError> {
        let stage = self
            .network
            .stage(self.program, &candidate.places, measured_with)?;
        let played = play(self.program, &stage);
        if let Some(rank) = played.stuck {
            return Err(NetworkError::Stuck { rank }.into());
        }
        Ok(Replayed { stage, played })
    }

    /// Replays a placement from outside the search, on the nodes that it uses.
    ///
    /// # Errors
    /// Nodes that are not connected, or a deadlock of ranks.
    pub fn judge(&self, candidate: Candidate, job: &Job) -> Result<Advised, PlaceError> {
        let nodes = candidate.nodes.clone();
        let mut judged = self.advised_among(candidate, job, &nodes)?;
        judged.apart_seconds = Some(self.apart(&judged, job)?);
        Ok(judged)
    }

    fn advised_among(
        &self,
        candidate: Candidate,
        job: &Job,
        allowed: &[NodeIndex],
    ) -> Result<Advised, PlaceError> {
        let Replayed { stage, played } = self.replay(&candidate, job.measured_with)?;
        let estimate =
            self.network
                .estimate(self.program, &stage, &candidate.places, &played, self.times);
        let lower = lower_bound(
            self.network,
            self.program,
            allowed,
            candidate.ranks_per_node,
            candidate.nodes.len(),
            job.measured_with,
        );
        Ok(Advised {
            lower_bound_seconds: lower.seconds() * self.times,
            node_seconds: estimate.seconds.value * candidate.nodes.len() as f64,
            estimate,
            candidate,
            apart_seconds: None,
            same_as_best: false,
        })
    }

    /// The time of a placement if ranks start up to [`APART`] of it apart.
    fn apart(&self, advised: &Advised, job: &Job) -> Result<f64, PlaceError> {
        let stage =
            self.network
                .stage(self.program, &advised.candidate.places, job.measured_with)?;
        let seconds = advised.estimate.seconds.value / self.times;
        let most = (seconds * APART * 1e9) as usize;
        let mut random = Random::new(job.seed);
        let begin: Vec<u64> = (0..self.program.ranks())
            .map(|_| random.below(most + 1) as u64)
            .collect();
        let played = play_from(self.program, &stage, &begin);
        Ok(played.makespan_ns() as f64 * 1e-9 * self.times)
    }
}

/// Replays candidates and compares them.
///
/// # Errors
/// Nodes that are not connected, or no candidate.
pub fn advise(
    subject: &Subject<'_>,
    job: &Job,
    candidates: Vec<Candidate>,
) -> Result<Advice, PlaceError> {
    // Computed once for all candidates: there may be a million nodes.
    let allowed = job.allowed(subject.network, subject.program.ranks())?;
    let allowed: Vec<NodeIndex> = allowed.into_iter().map(|(node, _)| node).collect();
    let found = candidates.len();
    let chosen = worth_playing(candidates, subject.program.operations());
    let left_out = found - chosen.len();
    let at_once = (MOST_AT_ONCE / subject.program.operations().max(1)).max(1) as usize;
    let mut rows = Vec::with_capacity(chosen.len());
    for some in chosen.chunks(at_once) {
        let played: Result<Vec<Advised>, PlaceError> = some
            .par_iter()
            .map(|c| subject.advised_among(c.clone(), job, &allowed))
            .collect();
        rows.extend(played?);
    }
    rows.sort_by(|a, b| {
        let k = a.candidate.ranks_per_node.cmp(&b.candidate.ranks_per_node);
        k.then(
            a.estimate
                .seconds
                .value
                .total_cmp(&b.estimate.seconds.value),
        )
    });
    for rows in rows.chunk_by_mut(|a, b| a.candidate.ranks_per_node == b.candidate.ranks_per_node) {
        simplest_first(rows);
    }
    let anything_fits = rows.iter().any(|row| fits(&row.candidate));
    let of_interest = |row: &&Advised| fits(&row.candidate) || !anything_fits;
    let least = rows
        .iter()
        .filter(of_interest)
        .map(|row| row.estimate.seconds.value);
    let least = least.fold(f64::INFINITY, f64::min);
    // Among equally fast ones take the simplest, then the one on the fewest nodes.
    let simple = |(_, row): &(usize, &Advised)| (!row.is_baseline(), row.candidate.nodes.len());
    let all = rows.iter().enumerate().filter(|(_, row)| of_interest(row));
    let fast = all.filter(|(_, row)| row.estimate.seconds.value <= least * SAME);
    let best = fast.min_by_key(simple).map(|(at, _)| at);
    let default = default_of(rows.iter().map(|row| &row.candidate));
    let Some(best) = best else {
        return Err(PlaceError::Nothing {
            what: "no ranks: there is no placement",
        });
    };
    let fastest = rows[best].estimate.clone();
    for row in &mut rows {
        row.same_as_best = !row.estimate.differs_from(&fastest);
    }
    let default = default.unwrap_or(best);
    let mut compared = vec![best, default];
    compared.dedup();
    let apart: Result<Vec<f64>, PlaceError> = compared
        .par_iter()
        .map(|&at| subject.apart(&rows[at], job))
        .collect();
    for (at, seconds) in compared.into_iter().zip(apart?) {
        rows[at].apart_seconds = Some(seconds);
    }
    Ok(Advice {
        default,
        rows,
        best,
        left_out,
    })
}

/// Moves the baseline, which needs no rank file, before placements that are hardly faster.
fn simplest_first(rows: &mut [Advised]) {
    let Some(least) = rows.first().map(|row| row.estimate.seconds.value) else {
        return;
    };
    let simple = rows.iter().position(Advised::is_baseline);
    if let Some(at) = simple.filter(|&at| rows[at].estimate.seconds.value <= least * SAME) {
        rows[..=at].rotate_right(1);
    }
}

/// All candidates or, if time does not allow, the batch system's default and the best by bound.
fn worth_playing(candidates: Vec<Candidate>, operations: u64) -> Vec<Candidate> {
    let most = (MOST_PLAYED / operations.max(1)).max(LEAST_PLAYED as u64) as usize;
    if candidates.len() <= most {
        return candidates;
    }
    // The best candidate of each rank count per node comes before the second best of any other.
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    let mut by_bound: Vec<Candidate> = candidates;
    by_bound.sort_by(|a, b| a.bound_seconds.total_cmp(&b.bound_seconds));
    // The batch system's default is always included.
    let default = default_of(by_bound.iter());
    let mut ranked: Vec<(usize, usize, Candidate)> = Vec::with_capacity(by_bound.len());
    for (place, candidate) in by_bound.into_iter().enumerate() {
        let nth = seen.entry(candidate.ranks_per_node).or_insert(0);
        *nth += 1;
        let nth = if Some(place) == default { 0 } else { *nth };
        ranked.push((nth, place, candidate));
    }
    ranked.sort_by_key(|(nth, place, _)| (*nth, *place));
    ranked.truncate(most);
    ranked
        .into_iter()
        .map(|(_, _, candidate)| candidate)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates;
    use crate::testing::program_of;
    use idlewave_network::{Description, NetworkParameters, Part, described};
    use idlewave_simulate::collectives::{Algorithms, Kind, Library};
    use idlewave_topology::{Routing, Topology};

    fn network(nodes: usize, cores: u32) -> Network {
        let topology = Topology::star(nodes).unwrap().with_cores(cores);
        let parameters = NetworkParameters::assumed("test", 1e9);
        Network::new(topology, parameters, Routing::Deterministic).unwrap()
    }

    fn advised(network: &Network, program: &Program, job: &Job) -> Advice {
        let subject = Subject {
            network,
            program,
            times: 1.0,
        };
        let found = candidates(network, program, job).unwrap();
        advise(&subject, job, found).unwrap()
    }

    #[test]
    fn what_rests_on_ranks_in_step_is_told_by_how_long_it_takes_without() {
        let network = network(8, 8);
        let job = Job {
            ranks_per_node: vec![8],
            trials: 0,
            ..Job::default()
        };
        let all_to_all = |library: Library| {
            let round = Description {
                ranks: 64,
                phases: vec![Part::Collective(Kind::Alltoall, 64 << 10)],
            };
            let schedule = described(&round, 1, &Algorithms::of_library(library)).unwrap();
            let advice = advised(&network, &Program::new(&schedule).unwrap(), &job);
            let row = &advice.rows[advice.default];
            row.apart_seconds.unwrap() / row.estimate.seconds.value
        };
        // In pairs, step by step: ranks that are ahead meet the messages of those behind.
        assert!(all_to_all(Library::Mpich) > 1.1);
        // All at once: it ends when the adapters have moved everything.
        assert!((all_to_all(Library::OpenMpi) - 1.0).abs() < 0.05);
    }

    #[test]
    fn of_placements_that_are_as_fast_the_batch_systems_is_taken() {
        let network = network(4, 4);
        let pairs = (0..8).flat_map(|a| {
            (0..8)
                .filter(move |&b| b != a)
                .map(move |b| (a, b, 100_000))
        });
        let program = program_of(8, &pairs.collect::<Vec<_>>(), 0);
        let advice = advised(&network, &program, &Job::default());
        // Everyone sends to everyone: the order of ranks makes no difference.
        for rows in advice
            .rows
            .chunk_by(|a, b| a.candidate.ranks_per_node == b.candidate.ranks_per_node)
        {
            assert!(rows[0].is_baseline(), "{:?}", rows[0].candidate.how);
        }
        assert!(advice.rows[advice.best].is_baseline());
        assert_eq!(advice.rows[advice.default].candidate.ranks_per_node, 4);
        assert!(advice.rows[advice.best].same_as_best);
        // Only the compared placements are also replayed with staggered starts.
        for (at, row) in advice.rows.iter().enumerate() {
            let compared = at == advice.best || at == advice.default;
            assert_eq!(row.apart_seconds.is_some(), compared, "{at}");
        }
    }

    #[test]
    fn times_are_of_all_runs_and_nodes_are_paid_for_each() {
        let network = network(4, 4);
        let ring: Vec<_> = (0..8).map(|r| (r, (r + 1) % 8, 1_000_000)).collect();
        let program = program_of(8, &ring, 1_000_000);
        let job = Job::default();
        let of = |times| {
            let subject = Subject {
                network: &network,
                program: &program,
                times,
            };
            let found = candidates(&network, &program, &job).unwrap();
            advise(&subject, &job, found).unwrap()
        };
        let (one, three) = (of(1.0), of(3.0));
        for (one, three) in one.rows.iter().zip(&three.rows) {
            let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            let seconds = one.estimate.seconds.value;
            assert!(near(three.estimate.seconds.value, 3.0 * seconds));
            assert!(near(
                three.lower_bound_seconds,
                3.0 * one.lower_bound_seconds
            ));
            let nodes = one.candidate.nodes.len() as f64;
            assert!(nodes > 1.0 && near(one.node_seconds, nodes * seconds));
        }
    }

    #[test]
    fn what_does_not_fit_into_memory_is_taken_where_nothing_fits_alone() {
        let program = program_of(4, &[(0, 1, 50_000_000), (2, 3, 50_000_000)], 0);
        let taken = |memory: u64| {
            let topology = Topology::star(4).unwrap().with_cores(4);
            let topology = topology.with_memory(idlewave_units::Bytes::new(memory));
            let parameters = NetworkParameters::assumed("test", 1e9);
            let network = Network::new(topology, parameters, Routing::Deterministic).unwrap();
            let job = Job {
                memory_per_rank: Some(idlewave_units::Bytes::new(2)),
                ..Job::default()
            };
            let advice = advised(&network, &program, &job);
            let best = &advice.rows[advice.best].candidate;
            (best.ranks_per_node, fits(best))
        };
        // Pairs on a node are fastest.
        assert_eq!(taken(4), (2, true));
        assert_eq!(taken(3), (1, true));
        assert_eq!(taken(1), (4, false));
    }

    #[test]
    fn of_many_placements_the_default_that_fits_into_memory_is_played() {
        let mut topology = Topology::star(12).unwrap().with_cores(12);
        topology = topology.with_memory(idlewave_units::Bytes::new(5));
        let parameters = NetworkParameters::assumed("test", 1e9);
        let network = Network::new(topology, parameters, Routing::Deterministic).unwrap();
        let ring: Vec<_> = (0..12)
            .map(|rank| (rank, (rank + 1) % 12, 1_000_000))
            .collect();
        let program = program_of(12, &ring, 0);
        // Memory allows five ranks per node: two full nodes, and two ranks on a third.
        let job = Job {
            memory_per_rank: Some(idlewave_units::Bytes::new(1)),
            trials: 0,
            ..Job::default()
        };
        let found = candidates(&network, &program, &job).unwrap();
        let played = worth_playing(found.clone(), MOST_PLAYED);
        assert!(found.len() > LEAST_PLAYED && played.len() == LEAST_PLAYED);
        let default = default_of(played.iter()).unwrap();
        assert_eq!(played[default].ranks_per_node, 5);
        assert!(fits(&played[default]));
    }

    #[test]
    fn what_is_much_faster_is_taken_though_it_needs_a_rank_file() {
        let network = network(2, 2);
        // Ranks 0 and 2, 1 and 3 communicate.
        let far = [(0, 2), (2, 0), (1, 3), (3, 1)].map(|(a, b)| (a, b, 10_000_000));
        let job = Job {
            ranks_per_node: vec![2],
            ..Job::default()
        };
        let advice = advised(&network, &program_of(4, &far, 0), &job);
        let (best, default) = (&advice.rows[advice.best], &advice.rows[advice.default]);
        assert!(!best.is_baseline() && default.is_baseline());
        assert!(best.estimate.seconds.value < 0.7 * default.estimate.seconds.value);
        assert!(best.lower_bound_seconds <= best.estimate.seconds.value);
    }
}
