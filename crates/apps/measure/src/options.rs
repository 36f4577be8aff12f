//! The options of a measurement.

use crate::MeasureError;
use idlewave_mpi::Search;
use idlewave_run::{Coupling, ExchangeVariant, Scaling};
use idlewave_stats::quantiles::MEDIAN_NEEDS;
use idlewave_units::{CpuSet, Nanos, counted};
use idlewave_workloads::lockstep::HEADER;
use idlewave_workloads::md::{cells_for, particles_in};
use idlewave_workloads::{Benchmark, ParseBenchmarkError};
use serde::Serialize;
use std::path::PathBuf;

/// The minimum and maximum time of one series.
const DURATION: [Nanos; 2] = [Nanos::from_millis(100), Nanos::from_secs(3_600)];
/// The minimum and maximum computation of one iteration.
const WORK: [Nanos; 2] = [Nanos::from_micros(1), Nanos::from_secs(1)];
/// The most ranks; more do not belong on one node.
const MOST_RANKS: u32 = 4_096;
/// The largest message; an all-to-all needs one per rank.
const MOST_BYTES: u64 = 64 << 20;
/// The most rounds of a series.
const MOST_REPEATS: u32 = 100;
/// The most particles per rank in molecular dynamics: 1 GB with the list of pairs at 2 million.
const MOST_PARTICLES: u64 = 4_000_000;
/// The most steps of all ranks together that are kept: 128 MB.
pub(crate) const MOST_STEPS: u64 = 4 << 20;

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Computation, then the neighbours or all ranks meet.
    Lockstep {
        /// How they meet.
        coupling: Coupling,
        /// Dimensions of the decomposition, for neighbour exchange.
        dims: u32,
        /// How the exchange is programmed; several ways are compared with the first.
        variants: Vec<ExchangeVariant>,
        /// Bytes of a message, or of the values; `None` for the default.
        bytes: Option<u64>,
    },
    /// Messages back and forth between pairs.
    PingPong {
        /// Pairs at a time; `None` for one.
        pairs: Option<u32>,
        /// The largest message.
        most_bytes: u64,
    },
    /// A Lennard-Jones fluid, whose forces take the same time on every rank except for the
    /// influence of the machine.
    MolecularDynamics {
        /// Particles of a rank, rounded to a cube of lattice cells.
        particles: u64,
        /// Number of steps; `None` for as many as fit into the time.
        steps: Option<u64>,
        /// Sum the energy every this many steps; never if 0.
        energy_every: u64,
        /// Seed of the velocities.
        seed: u64,
    },
    /// A program with a size of its own that verifies its result.
    Benchmark(Benchmark),
    /// Several, one after the other, or names of which there is none.
    Benchmarks(Vec<Result<Benchmark, ParseBenchmarkError>>),
}

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FabricChoice {
    /// Shared memory between threads of this process.
    Threads,
    /// The MPI library of the site.
    Mpi,
    /// A network device of this node, for switched gangs.
    Netctx,
}

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    /// What to measure.
    pub what: What,
    /// Time of one series.
    pub duration: Nanos,
    /// Computation of one iteration.
    pub work: Nanos,
    /// Rank counts; empty for all available ranks.
    pub ranks: Vec<u32>,
    /// A series over rank counts.
    pub scaling: Option<Scaling>,
    /// Rounds of a series of a benchmark or of molecular dynamics.
    pub repeats: u32,
    /// CPUs; `None` for all allowed ones.
    pub cpus: Option<CpuSet>,
    /// `None`: network contexts if the environment names a device, else MPI if a launcher started
    /// this process, threads otherwise.
    pub fabric: Option<FabricChoice>,
    /// Which MPI library; if the user names one, MPI carries the messages.
    pub mpi: Search,
    /// Directory for a bundle.
    pub output: Option<PathBuf>,
    /// Whether to record a kernel trace with it.
    pub trace: bool,
    /// The command line, for the manifest.
    pub command: Vec<String>,
}

impl MeasureOptions {
    /// The default options for `what`.
    pub fn new(what: What) -> Self {
        Self {
            what,
            duration: Nanos::from_secs(3),
            work: Nanos::from_micros(20),
            ranks: Vec::new(),
            scaling: None,
            repeats: MEDIAN_NEEDS as u32,
            cpus: None,
            fabric: None,
            mpi: Search::default(),
            output: None,
            trace: true,
            command: Vec::new(),
        }
    }

    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// The invalid option, with an alternative.
    pub fn check(&self) -> Result<(), MeasureError> {
        let within = |option: &str, time: Nanos, [least, most]: [Nanos; 2], example: &str| {
            if (least..=most).contains(&time) {
                return Ok(());
            }
            let next = format!("give a time from {least} to {most}, as in {option} {example}");
            Err(MeasureError::option(
                format!("{option} {time}"),
                "not possible",
                next,
            ))
        };
        within("--duration", self.duration, DURATION, "3s")?;
        within("--work", self.work, WORK, "20us")?;
        if self.cpus.as_ref().is_some_and(CpuSet::is_empty) {
            return Err(MeasureError::option(
                "--cpus",
                "the list is empty",
                "give at least one CPU, as in --cpus 0",
            ));
        }
        self.check_ranks()?;
        if self.mpi.is_told() && !matches!(self.fabric, None | Some(FabricChoice::Mpi)) {
            return Err(MeasureError::option(
                "--mpi-lib or --mpi-of",
                "the ranks do not communicate by MPI",
                "omit it, or give --fabric mpi",
            ));
        }
        match self.what {
            What::Lockstep {
                coupling,
                dims,
                bytes,
                ref variants,
            } => {
                self.check_ways(variants)?;
                check_lockstep(coupling, dims, bytes)
            }
            What::PingPong { pairs, most_bytes } => self.check_ping_pong(pairs, most_bytes),
            What::MolecularDynamics {
                particles, steps, ..
            } => self.check_md(particles, steps),
            What::Benchmark(benchmark) => self.check_benchmark(&benchmark),
            What::Benchmarks(ref benchmarks) => self.check_benchmarks(benchmarks),
        }
    }

    /// Rank counts to measure, out of `size` ranks.
    ///
    /// # Errors
    /// There are fewer ranks.
    pub(crate) fn numbers(&self, size: u32) -> Result<Vec<u32>, MeasureError> {
        if let Some(&most) = self.ranks.last() {
            if most > size {
                return Err(MeasureError::option(
                    format!("--ranks {most}"),
                    format!("there are {size}", size = counted(size, "rank")),
                    "start more with the launcher, or give fewer",
                ));
            }
            return Ok(self.ranks.clone());
        }
        if self.scaling.is_none() {
            return Ok(vec![size]);
        }
        let mut numbers: Vec<u32> = (0..32)
            .map(|power| 1_u32 << power)
            .take_while(|&n| n < size)
            .collect();
        numbers.push(size);
        Ok(numbers)
    }

    fn check_md(&self, particles: u64, steps: Option<u64>) -> Result<(), MeasureError> {
        let least = particles_in(cells_for(0));
        if !(least..=MOST_PARTICLES).contains(&particles) {
            let next = format!("give {least} to {MOST_PARTICLES} per rank");
            let option = format!("--particles {particles}");
            return Err(MeasureError::option(option, "not possible", next));
        }
        if steps.is_some_and(|steps| !(2..=MOST_STEPS).contains(&steps)) {
            let option = format!("--steps {}", steps.unwrap_or(0));
            let next = format!("give 2 to {MOST_STEPS}, or --duration instead");
            return Err(MeasureError::option(option, "not possible", next));
        }
        self.check_repeats()
    }

    fn check_repeats(&self) -> Result<(), MeasureError> {
        if (1..=MOST_REPEATS).contains(&self.repeats) {
            return Ok(());
        }
        let option = format!("--repeats {}", self.repeats);
        let next = format!("give 1 to {MOST_REPEATS}; an interval needs {MEDIAN_NEEDS}");
        Err(MeasureError::option(option, "not possible", next))
    }

    fn check_benchmark(&self, benchmark: &Benchmark) -> Result<(), MeasureError> {
        if let Benchmark::Halo(halo) = benchmark {
            if let Err(next) = halo.check() {
                let name = benchmark.to_string();
                return Err(MeasureError::option(name, "not possible", next));
            }
        }
        let fixed = matches!(benchmark, Benchmark::Is(_) | Benchmark::Npb(_));
        if fixed && self.scaling == Some(Scaling::Weak) {
            return Err(MeasureError::option(
                "--scaling weak",
                format!("the class fixes the size of {benchmark} for all ranks together"),
                "give --scaling strong, or measure halo or md, whose ranks have a size each",
            ));
        }
        self.check_repeats()
    }

    fn check_benchmarks(
        &self,
        benchmarks: &[Result<Benchmark, ParseBenchmarkError>],
    ) -> Result<(), MeasureError> {
        // Among several it has a row that says so.
        if let [Err(unknown)] = benchmarks {
            let (name, reason) = (unknown.text.clone(), unknown.reason.clone());
            return Err(MeasureError::option(name, reason, "give one of these"));
        }
        match self.scaling {
            None => Ok(()),
            Some(_) => Err(MeasureError::option(
                "--scaling",
                "not possible for all benchmarks together",
                "name one, as in idlewave measure npb cg --scaling strong",
            )),
        }
    }

    fn check_ranks(&self) -> Result<(), MeasureError> {
        let list: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
        let option = format!("--ranks {}", list.join(","));
        if self.ranks.iter().any(|r| !(1..=MOST_RANKS).contains(r)) {
            let next = format!("give numbers from 1 to {MOST_RANKS}");
            return Err(MeasureError::option(option, "not a number of ranks", next));
        }
        if self.scaling.is_none() && self.ranks.len() > 1 {
            return Err(MeasureError::option(
                option,
                "several numbers make a series",
                "add --scaling weak or --scaling strong",
            ));
        }
        if self.ranks.windows(2).any(|w| w[0] >= w[1]) {
            let next = "give ascending numbers, as in --ranks 1,2,4";
            return Err(MeasureError::option(
                option,
                "the numbers do not ascend",
                next,
            ));
        }
        Ok(())
    }

    fn check_ping_pong(&self, pairs: Option<u32>, most_bytes: u64) -> Result<(), MeasureError> {
        if pairs == Some(0) {
            return Err(MeasureError::option(
                "--pairs 0",
                "there must be one",
                "give 1 or more",
            ));
        }
        if most_bytes > MOST_BYTES {
            let next = format!("give at most {MOST_BYTES}");
            let option = format!("--bytes {most_bytes}");
            return Err(MeasureError::option(option, "too long a message", next));
        }
        if self.scaling.is_some() {
            let next = "use --pairs for more ranks at once";
            return Err(MeasureError::option(
                "--scaling",
                "ping-pong is between pairs",
                next,
            ));
        }
        Ok(())
    }

    /// Several ways are compared on one number of ranks.
    fn check_ways(&self, variants: &[ExchangeVariant]) -> Result<(), MeasureError> {
        let names: Vec<&str> = variants.iter().map(|v| v.name()).collect();
        let refused = |reason: &str, next: &str| {
            let option = format!("--wait {}", names.join(","));
            Err(MeasureError::option(option, reason, next))
        };
        if variants.is_empty()
            || variants
                .iter()
                .enumerate()
                .any(|(i, v)| variants[..i].contains(v))
        {
            return refused("each way counts once", "name one way, or different ones");
        }
        if variants.len() == 1 {
            return Ok(());
        }
        if self.scaling.is_some() {
            let next = "measure one number of ranks at a time";
            return refused("ways are compared on one number of ranks", next);
        }
        Ok(())
    }
}

fn check_lockstep(coupling: Coupling, dims: u32, bytes: Option<u64>) -> Result<(), MeasureError> {
    if !(1..=3).contains(&dims) {
        let option = format!("--dims {dims}");
        return Err(MeasureError::option(
            option,
            "not a decomposition",
            "give 1, 2 or 3",
        ));
    }
    let Some(bytes) = bytes else {
        return Ok(());
    };
    if coupling == Coupling::Barrier {
        let option = format!("--bytes {bytes}");
        let next = "omit it, or measure allreduce";
        return Err(MeasureError::option(
            option,
            "a barrier carries no values",
            next,
        ));
    }
    let (least, why) = match coupling {
        Coupling::Neighbours | Coupling::Alltoall => (HEADER as u64, "every message has a header"),
        Coupling::Barrier | Coupling::Allreduce | Coupling::Reduce => {
            (8, "the values have 8 bytes each")
        }
    };
    if (least..=MOST_BYTES).contains(&bytes) {
        return Ok(());
    }
    let next = format!("give {least} to {MOST_BYTES}: {why}");
    let option = format!("--bytes {bytes}");
    Err(MeasureError::option(option, "not possible", next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange() -> MeasureOptions {
        MeasureOptions::new(What::Lockstep {
            coupling: Coupling::Neighbours,
            dims: 1,
            variants: vec![ExchangeVariant::NonBlocking],
            bytes: None,
        })
    }

    fn refused(change: impl FnOnce(&mut MeasureOptions)) -> String {
        let mut options = exchange();
        change(&mut options);
        let error = options.check().expect_err("cannot be carried out");
        assert!(error.next_step().is_some(), "{error}");
        error.to_string()
    }

    #[test]
    fn the_usual_options_are_fine() {
        exchange().check().expect("defaults");
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused_by_name() {
        assert!(refused(|o| o.duration = Nanos::ZERO).contains("--duration"));
        assert!(refused(|o| o.work = Nanos::ZERO).contains("--work"));
        assert!(refused(|o| o.ranks = vec![0]).contains("--ranks 0"));
        assert!(refused(|o| o.ranks = vec![1, 2]).contains("--ranks 1,2"));
        assert!(
            refused(|o| {
                o.ranks = vec![2, 1];
                o.scaling = Some(Scaling::Weak);
            })
            .contains("--ranks 2,1")
        );
        assert!(refused(|o| o.cpus = Some(CpuSet::new())).contains("--cpus"));
        let lockstep = |dims, bytes| What::Lockstep {
            coupling: Coupling::Neighbours,
            dims,
            variants: vec![ExchangeVariant::NonBlocking],
            bytes,
        };
        assert!(refused(|o| o.what = lockstep(4, None)).contains("--dims 4"));
        assert!(refused(|o| o.what = lockstep(1, Some(8))).contains("--bytes 8"));
        let barrier = What::Lockstep {
            coupling: Coupling::Barrier,
            dims: 1,
            variants: vec![ExchangeVariant::NonBlocking],
            bytes: Some(8),
        };
        assert!(refused(|o| o.what = barrier).contains("no values"));
        let ways = |count: usize| What::Lockstep {
            coupling: Coupling::Neighbours,
            dims: 1,
            variants: [ExchangeVariant::Blocking, ExchangeVariant::NonBlocking]
                .into_iter()
                .cycle()
                .take(count)
                .collect(),
            bytes: None,
        };
        assert!(refused(|o| o.what = ways(0)).contains("--wait"));
        let twice = refused(|o| o.what = ways(3));
        assert!(
            twice.contains("--wait blocking,nonblocking,blocking"),
            "{twice}"
        );
        let scaled = refused(|o| {
            o.what = ways(2);
            o.scaling = Some(Scaling::Weak);
        });
        assert!(scaled.contains("one number of ranks"), "{scaled}");
        let mpi_of_threads = refused(|o| {
            o.fabric = Some(FabricChoice::Threads);
            o.mpi.library = Some("libmpi.so".into());
        });
        assert!(mpi_of_threads.contains("--mpi-lib"), "{mpi_of_threads}");
        let pairs = |pairs| What::PingPong {
            pairs,
            most_bytes: 8,
        };
        assert!(refused(|o| o.what = pairs(Some(0))).contains("--pairs 0"));
        let md = |particles, steps| What::MolecularDynamics {
            particles,
            steps,
            energy_every: 0,
            seed: 1,
        };
        assert!(refused(|o| o.what = md(10, None)).contains("--particles 10"));
        assert!(refused(|o| o.what = md(u64::MAX, None)).contains("--particles"));
        assert!(refused(|o| o.what = md(4_000, Some(1))).contains("--steps 1"));
        let repeats = refused(|o| {
            o.what = md(4_000, None);
            o.repeats = 0;
        });
        assert!(repeats.contains("--repeats 0"), "{repeats}");
        let weak = refused(|o| {
            o.what = What::Benchmark("is:S".parse().expect("a name"));
            o.scaling = Some(Scaling::Weak);
        });
        assert!(weak.contains("the class fixes the size of is:S"), "{weak}");
    }
}
