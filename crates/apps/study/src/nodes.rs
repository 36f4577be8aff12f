//! A study of the nodes of a job: a rank of every node measures its CPUs, all nodes at the same
//! time, and the first rank merges their bundles.
//!
//! The other ranks sleep meanwhile. Each node records its own kernel's view into a bundle of its own;
//! clocks are compared by messages before and after. Lockstep runs are left out.

use crate::StudyOptions;
use crate::plan::Plan;
use crate::record::{Request, measured, sleep_unless};
use idlewave_capture::host::allowed_cpus;
use idlewave_clock::{Calibration, Counter};
use idlewave_fabric::mpi::{MpiFabric, ThreadLevel};
use idlewave_fabric::{Fabric, Nodes, PointToPoint};
use idlewave_measure::{Clocks, MeasureError, gather};
use idlewave_mpi::{Launch, Search};
use idlewave_record::{Front, NodeRun, merge};
use idlewave_run::{Ledger, RunReader};
use idlewave_session::{Progress, Quiet, SessionError, Stop, Utc, check_machine, open_run};
use idlewave_sys::{affinity, files};
use idlewave_units::{Cpu, CpuSet, NodeId, Rank};
use idlewave_workloads::speed::Speed;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// How rarely a rank that does not measure looks whether its node is done.
const PAUSE: Duration = Duration::from_millis(50);
const ROOT: Rank = Rank::new(0);
/// Words of a CPU set that ranks exchange: 8,192 CPUs, the most that Linux is built for.
const WORDS: usize = 128;
/// How rarely a rank that does not measure looks, meanwhile, whether it shall stop.
const LOOK: Duration = Duration::from_secs(1);

/// What became of a study in a job.
#[derive(Debug)]
pub enum JobStudy {
    /// Another rank has the result.
    Elsewhere,
    /// All ranks are on one node. This is the first rank, which may now use the CPUs of all; the
    /// others have ended.
    OneNode,
    /// The bundle of all nodes, not yet explained.
    Merged(PathBuf),
}

/// Whether a launcher started this process as one of several.
pub fn is_of_job() -> bool {
    let launch = Launch::of_this_process();
    launch.is_some_and(|l| l.size.is_none_or(|size| size > 1))
}

/// Measures all nodes of the job; every rank calls it.
///
/// # Errors
/// The ranks cannot communicate, an option is not possible, or the bundle cannot be written. A node
/// that cannot be measured is entered in the ledger.
pub fn study_job(
    options: &StudyOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<JobStudy, MeasureError> {
    options.check()?;
    check_machine()?;
    let mut fabric = MpiFabric::begin_with_threads(&Search::default(), ThreadLevel::Funneled)?;
    let nodes = fabric.nodes()?;
    let cpus = cpus_of_node(&mut fabric, &nodes)?;
    let first = fabric.rank() == ROOT;
    if nodes.count() < 2 {
        if first {
            free(&cpus)?;
        }
        return Ok(match first {
            true => JobStudy::OneNode,
            false => JobStudy::Elsewhere,
        });
    }
    let job = Job {
        options,
        nodes,
        cpus,
        stop,
        progress: if first { progress } else { &Quiet },
    };
    let done = job.study(&mut fabric);
    if let Err(error @ (MeasureError::Workload(_) | MeasureError::Fabric(_))) = &done {
        progress.note(&error.to_string());
        fabric.fail();
    }
    done
}

/// Lets the calling thread, and those that it starts, use these CPUs.
fn free(cpus: &CpuSet) -> Result<(), SessionError> {
    affinity::bind(cpus).map_err(SessionError::io("bind to the CPUs of", "this node"))
}

/// The CPUs that the ranks of the caller's node may use together. Every rank calls it.
fn cpus_of_node<F: Fabric>(fabric: &mut F, nodes: &Nodes) -> Result<CpuSet, MeasureError> {
    let own = allowed_cpus().map_err(SessionError::from)?;
    let mut words = [0_u64; WORDS];
    for cpu in own.iter() {
        if let Some(word) = words.get_mut(cpu.index() / 64) {
            *word |= 1 << (cpu.get() % 64);
        }
    }
    let all = gather::of_all(fabric, words)?;
    let node = nodes.of_rank(fabric.rank()).unwrap_or(NodeId::new(0));
    let mine = nodes
        .ranks_of(node)
        .filter_map(|rank| all.get(rank.index()));
    let is_in = |words: &[u64; WORDS], cpu: usize| words[cpu / 64] >> (cpu % 64) & 1 == 1;
    let in_words = |words: &[u64; WORDS]| {
        let cpus = (0..64 * WORDS).filter(|cpu| is_in(words, *cpu));
        cpus.map(|cpu| Cpu::new(cpu as u32)).collect::<Vec<_>>()
    };
    Ok(mine.flat_map(in_words).collect())
}

struct Job<'a> {
    options: &'a StudyOptions,
    nodes: Nodes,
    /// The CPUs of this node.
    cpus: CpuSet,
    stop: &'a Stop,
    progress: &'a dyn Progress,
}

/// The bundle of a node, and what holds it.
struct OwnBundle {
    path: PathBuf,
    _scratch: TempDir,
}

impl Job<'_> {
    fn study<F: Fabric>(&self, fabric: &mut F) -> Result<JobStudy, MeasureError> {
        let rank = fabric.rank();
        let first = rank == ROOT;
        let node = self.nodes.of_rank(rank);
        let leads = node.is_some_and(|node| self.nodes.leader(node) == Some(rank));
        // Only the first rank can fail here; the others end cleanly with it.
        let place = match first {
            true => self.place(),
            false => Ok(PathBuf::new()),
        };
        if !gather::agree(fabric, place.is_ok())? {
            return Ok(place.map(|_| JobStudy::Elsewhere)?);
        }
        let place = place?;
        // The same work on every node.
        let speed = first.then(|| {
            let calibration = Calibration::begin(Counter::choose(Path::new("/")));
            Speed::measure(&calibration)
        });
        let steps = speed.map_or(0, |speed| speed.steps(Plan::quantum(self.options)));
        let [steps] = gather::from_root(fabric, [steps])?;
        let mut clocks = Clocks::begin(fabric, &self.nodes)?;
        fabric.barrier(&mut pause)?;
        let own = match leads {
            true => Some(self.measure(steps)),
            false => {
                self.sleep();
                None
            }
        };
        fabric.barrier(&mut pause)?;
        clocks.compare(fabric)?;
        let failed = own.as_ref().and_then(|own| own.as_ref().err());
        let failed = failed.map(ToString::to_string);
        let failures = gather::values_to_root(fabric, failed.as_ref())?;
        let own = own.and_then(Result::ok);
        self.progress.part("collecting what the nodes measured");
        let incoming = match first {
            true => Some(self.incoming(&place)),
            false => None,
        };
        let ready = incoming.as_ref().is_none_or(Result::is_ok);
        if !gather::agree(fabric, ready)? {
            return Ok(incoming.transpose().map(|_| JobStudy::Elsewhere)?);
        }
        let incoming = incoming.transpose()?;
        let mut fetched: Vec<Result<PathBuf, String>> = Vec::new();
        for node in 0..self.nodes.count() {
            let Some(leader) = self.nodes.leader(NodeId::new(node)) else {
                continue;
            };
            let failure = failures.get(leader.index()).cloned().flatten();
            let packed = match (&own, leader == rank) {
                (Some(own), true) if !first => packed(&own.path).unwrap_or_default(),
                _ => Vec::new(),
            };
            let words = gather::from_rank(fabric, leader, &packed)?;
            let Some(incoming) = &incoming else { continue };
            fetched.push(match (failure, &own) {
                (Some(failure), _) => Err(failure),
                (None, Some(own)) if leader == ROOT => Ok(own.path.clone()),
                _ => unpacked(&words, &incoming.path().join(node.to_string())),
            });
        }
        match first {
            true => Ok(JobStudy::Merged(self.merged(
                &fetched,
                &mut clocks,
                place,
            )?)),
            false => Ok(JobStudy::Elsewhere),
        }
    }

    /// Sleeps while others measure.
    fn sleep(&self) {
        let duration = self.options.duration.to_duration();
        sleep_unless(duration, LOOK, || self.stop.is_requested());
    }

    /// Where the bundle will be.
    fn place(&self) -> Result<PathBuf, SessionError> {
        if self.options.ranks.is_some() {
            return Err(SessionError::Option {
                option: "--ranks".to_owned(),
                reason: "a study of several nodes has no lockstep runs".to_owned(),
                next: "omit it".to_owned(),
            });
        }
        let path = self.options.output.clone();
        let path =
            path.unwrap_or_else(|| format!("idlewave-study-{}", Utc::now().for_file()).into());
        let is_used = match fs::read_dir(&path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(_) => path.exists(),
        };
        match is_used {
            true => Err(SessionError::NotPossible {
                reason: format!("{} exists and is not empty", path.display()),
                next: "choose another directory with -o".to_owned(),
            }),
            false => Ok(path),
        }
    }

    /// A directory beside the bundle for those of the nodes.
    fn incoming(&self, place: &Path) -> Result<TempDir, SessionError> {
        let parent = place.parent().filter(|p| !p.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        if !parent.exists() {
            files::create_directory(parent).map_err(SessionError::io("make", parent))?;
        }
        let made = tempfile::Builder::new()
            .prefix(".idlewave-nodes-")
            .tempdir_in(parent);
        made.map_err(SessionError::io("make a directory in", parent))
    }

    /// Measures this node.
    fn measure(&self, steps: u64) -> Result<OwnBundle, SessionError> {
        free(&self.cpus)?;
        let made = tempfile::Builder::new().prefix("idlewave-study-").tempdir();
        let scratch = made.map_err(SessionError::io("make", std::env::temp_dir()))?;
        let allowed = allowed_cpus()?;
        let request = Request {
            name: "idlewave study",
            path: scratch.path().join("run"),
            kept: false,
            plan: Plan::of_node(self.options, &allowed, steps)?,
            trace: self.options.trace,
            seed: self.options.seed,
            command: &self.options.command,
        };
        let lock = measured(&request, self.stop, self.progress)?;
        // A request to stop ended the measurement, not its decoding.
        open_run(&request.path, &Default::default(), self.progress)?;
        drop(lock);
        Ok(OwnBundle {
            path: request.path,
            _scratch: scratch,
        })
    }

    /// The bundle of all nodes that were measured.
    fn merged(
        &self,
        fetched: &[Result<PathBuf, String>],
        clocks: &mut Clocks,
        place: PathBuf,
    ) -> Result<PathBuf, SessionError> {
        let mut losses = Ledger::default();
        let mut runs = Vec::new();
        for (node, path) in fetched.iter().enumerate() {
            let run = path
                .clone()
                .and_then(|path| RunReader::open(&path).map_err(|error| error.to_string()));
            match run {
                Ok(run) => runs.push(NodeRun {
                    run,
                    correction: clocks.of_node(node),
                    alignment: clocks.alignment(node).cloned(),
                }),
                Err(why) => losses.enter(
                    format!("node {} ({why})", self.nodes.names()[node]),
                    1,
                    "nothing is known of its CPUs",
                    "look for what it lacks, then measure again",
                ),
            }
        }
        if runs.is_empty() {
            return Err(SessionError::NotPossible {
                reason: format!("no node could be measured: {}", first_reason(fetched)),
                next: "study one node without a launcher".to_owned(),
            });
        }
        losses.enter(
            "lockstep runs (not made on several nodes)",
            1,
            "what the noise costs a parallel program is neither measured nor predicted",
            "use the same launcher with: idlewave measure barrier -o RUN",
        );
        losses.append(clocks.take_losses());
        let front = Front {
            command: self.options.command.clone(),
            exit_code: None,
            losses,
        };
        merge(&runs, front, &place)?;
        Ok(place)
    }
}

fn first_reason(fetched: &[Result<PathBuf, String>]) -> &str {
    let mut reasons = fetched.iter().filter_map(|f| f.as_ref().err());
    reasons.next().map_or("not known", String::as_str)
}

fn pause() {
    std::thread::sleep(PAUSE);
}

/// The files of a decoded bundle as words: for each the length of its name, that of its content, and
/// both, padded.
fn packed(bundle: &Path) -> Result<Vec<u64>, SessionError> {
    let run = RunReader::open(bundle)?;
    let tables = run.manifest().tables.iter().map(|t| t.file.clone());
    let mut words = Vec::new();
    for name in tables.chain(["run.json".to_owned()]) {
        let path = bundle.join(&name);
        let content = files::read(&path, u64::MAX).map_err(SessionError::io("read", &path))?;
        words.extend([name.len() as u64, content.len() as u64]);
        for bytes in [name.as_bytes(), &content] {
            words.extend(bytes.chunks(8).map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_ne_bytes(word)
            }));
        }
    }
    Ok(words)
}

/// Writes packed files into a new directory.
fn unpacked(words: &[u64], to: &Path) -> Result<PathBuf, String> {
    if words.is_empty() {
        return Err("its bundle could not be read".to_owned());
    }
    files::create_directory(to).map_err(|error| error.to_string())?;
    let mut rest = words;
    while let [name_length, length, content @ ..] = rest {
        let mut take = content;
        let mut bytes = |length: u64| -> Option<Vec<u8>> {
            let count = usize::try_from(length.div_ceil(8)).ok()?;
            let (own, after) = take.split_at_checked(count)?;
            take = after;
            let mut bytes: Vec<u8> = own.iter().flat_map(|word| word.to_ne_bytes()).collect();
            bytes.truncate(length as usize);
            Some(bytes)
        };
        let file = bytes(*name_length).zip(bytes(*length));
        let (name, content) = file.ok_or("its bundle arrived incomplete")?;
        let name = String::from_utf8(name).map_err(|error| error.to_string())?;
        // Only names of files in this directory.
        if name.contains('/') || name.starts_with('.') {
            return Err(format!("its bundle holds a file with the name {name:?}"));
        }
        files::write_new(&to.join(name), &content).map_err(|error| error.to_string())?;
        rest = take;
    }
    Ok(to.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::RunWriter;
    use idlewave_run::testing::empty_manifest;

    #[test]
    fn a_bundle_survives_being_packed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("a"), dir.path().join("b"));
        let mut out = RunWriter::create(&from, empty_manifest()).expect("a bundle");
        let tasks = idlewave_run::tables::Tasks::default();
        out.write_table(&tasks).expect("a table");
        out.close(None).expect("whole");
        let words = packed(&from).expect("packed");
        unpacked(&words, &to).expect("unpacked");
        for name in ["run.json", "tasks.arrow"] {
            let read = |path: &Path| fs::read(path.join(name)).expect(name);
            assert_eq!(read(&from), read(&to), "{name}");
        }
        assert!(unpacked(&words[..words.len() - 1], &dir.path().join("c")).is_err());
        assert!(unpacked(&[], &dir.path().join("d")).is_err());
    }
}
