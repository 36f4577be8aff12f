//! Pinned threads that start together, and the caller that collects their records meanwhile.

use crate::WorkloadError;
use crate::affinity::{enter_realtime, pin};
use crate::recorder::Collector;
use bytemuck::Pod;
use idlewave_clock::{Calibration, Pair};
use idlewave_fabric::FabricError;
use idlewave_run::RunError;
use idlewave_run::spill::{Block, RecordKind};
use idlewave_sys::process::own_thread;
use idlewave_units::{Cpu, Pid, Rank};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Time between two collections: often enough to show progress and save memory, rarely enough to
/// disturb little.
pub const PACE: Duration = Duration::from_millis(200);

/// Where the collector puts records. All methods are called on the caller's thread.
pub trait Sink {
    /// The measuring threads are ready but have not started; `threads[i]` runs `members[i]`.
    fn ready(&mut self, members: &[Member], threads: &[Pid]) -> Result<(), RunError>;
    /// Records of one thread, in time order within their kind. Called while the threads measure,
    /// perhaps on their CPUs: its cost is noise. [`Rows`](crate::Rows) turns the records into rows
    /// later.
    fn records(&mut self, block: &Block, words: &[u64]) -> Result<(), RunError>;
    /// Called at every collection with the time since the start.
    fn tick(&mut self, elapsed: Duration);
}

/// The records of one kind from one thread, on their way to the sink.
pub struct Feed<T> {
    pub collector: Collector<T>,
    pub kind: RecordKind,
    pub phase: u32,
    pub cpu: Cpu,
    /// 0 in phases without ranks.
    pub rank: Rank,
}

impl<T: Pod> Feed<T> {
    /// Passes on what has arrived; `pair` was just read.
    fn pass(&self, pair: Pair, sink: &mut dyn Sink) -> Result<(), RunError> {
        let block = Block {
            kind: self.kind,
            phase: self.phase,
            cpu: self.cpu,
            rank: self.rank,
            counts: pair.counts,
            ns: pair.ns,
        };
        let mut passed = Ok(());
        self.collector.drain(|chunk| {
            if passed.is_ok() {
                passed = sink.records(&block, bytemuck::cast_slice(chunk));
            }
        });
        passed
    }
}

/// Passes on what has arrived in all these feeds.
pub fn pass_all<T: Pod>(
    feeds: &[Feed<T>],
    pair: Pair,
    sink: &mut dyn Sink,
) -> Result<(), RunError> {
    feeds.iter().try_for_each(|feed| feed.pass(pair, sink))
}

/// One thread of the crew.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the thread, at most 15 bytes.
    pub name: String,
    /// CPU to which it is bound.
    pub cpu: Cpu,
    /// Its priority under SCHED_FIFO; `None` for the ordinary policy.
    pub realtime: Option<u8>,
}

impl Member {
    /// One thread per CPU, named after it, of the ordinary policy or a real-time priority.
    pub fn on_each(cpus: &[Cpu], name: &str, realtime: Option<u8>) -> Vec<Self> {
        let member = |&cpu| Self {
            name: format!("{name}-{cpu}"),
            cpu,
            realtime,
        };
        cpus.iter().map(member).collect()
    }

    /// Makes the calling thread this member.
    fn settle(&self) -> Result<(), WorkloadError> {
        pin(self.cpu)?;
        self.realtime.map_or(Ok(()), enter_realtime)
    }
}

/// Opens once, for go or no-go.
#[derive(Default)]
struct Gate {
    open: Mutex<Option<bool>>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, go: bool) {
        // A poisoned lock holds a valid value: it is only ever assigned as a whole.
        *self
            .open
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(go);
        self.opened.notify_all();
    }
    fn wait(&self) -> bool {
        let mut open = self
            .open
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        loop {
            if let Some(go) = *open {
                return go;
            }
            open = self
                .opened
                .wait(open)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

/// Runs `bodies[i]` as `members[i]`. All start after the sink has seen their thread ids. While they
/// run, `pass` forwards their records every [`PACE`], and once more when all have ended. If it
/// fails, `halt` is set, which the bodies obey. Returns what the bodies returned.
pub fn run<R: Send>(
    members: &[Member],
    bodies: Vec<impl FnOnce() -> R + Send>,
    halt: &AtomicBool,
    calibration: &mut Calibration,
    sink: &mut dyn Sink,
    pass: impl Fn(Pair, &mut dyn Sink) -> Result<(), RunError>,
) -> Result<Vec<R>, WorkloadError> {
    let gate = Gate::default();
    let mut collect = |sink: &mut dyn Sink, elapsed| {
        pass(calibration.update(), sink)?;
        sink.tick(elapsed);
        Ok::<(), RunError>(())
    };
    std::thread::scope(|scope| {
        let (report, reports) = mpsc::channel();
        let (done, all_done) = mpsc::channel::<()>();
        let mut threads = Vec::new();
        let mut failure: Option<WorkloadError> = None;
        for (index, (member, body)) in members.iter().zip(bodies).enumerate() {
            let (report, done, gate) = (report.clone(), done.clone(), &gate);
            let run = move || {
                // Held until the end: dropping it tells the collector, even after a panic.
                let _done = done;
                // The collector waits for one report per thread, so it is still there.
                let _ = report.send((index, member.settle().map(|()| own_thread())));
                drop(report);
                gate.wait().then(body)
            };
            match std::thread::Builder::new()
                .name(member.name.clone())
                .spawn_scoped(scope, run)
            {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    failure = Some(WorkloadError::Spawn(error));
                    break;
                }
            }
        }
        drop((report, done));
        let mut ids = vec![Pid::IDLE; members.len()];
        for (index, settled) in reports {
            match settled {
                Ok(id) => ids[index] = id,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if failure.is_none() {
            failure = sink.ready(members, &ids).err().map(WorkloadError::from);
        }
        gate.open(failure.is_none());
        let begin = std::time::Instant::now();
        while let Err(mpsc::RecvTimeoutError::Timeout) = all_done.recv_timeout(PACE) {
            if let Err(error) = collect(sink, begin.elapsed()) {
                halt.store(true, Ordering::Relaxed);
                failure = failure.or(Some(error.into()));
            }
        }
        let mut results = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok(result) => results.extend(result),
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text
                        .or_else(|| panic.downcast_ref::<&str>().copied())
                        .unwrap_or("no reason given");
                    failure = failure.or(Some(WorkloadError::Panicked(text.to_owned())));
                }
            }
        }
        let last = collect(sink, begin.elapsed());
        match failure {
            Some(failure) => Err(failure),
            None => last.map(|()| results).map_err(WorkloadError::from),
        }
    })
}

/// What all ranks returned, or the first failure. A rank that fails makes its peers fail; any other
/// error takes precedence over [`FabricError::PeerFailed`].
pub fn all_of<R>(results: Vec<Result<R, WorkloadError>>) -> Result<Vec<R>, WorkloadError> {
    let mut all = Vec::with_capacity(results.len());
    let mut failure = None;
    for result in results {
        match (result, &failure) {
            (Ok(one), _) => all.push(one),
            (Err(error), None | Some(WorkloadError::Fabric(FabricError::PeerFailed))) => {
                failure = Some(error);
            }
            (Err(_), Some(_)) => {}
        }
    }
    failure.map_or(Ok(all), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_clock::Counter;

    /// Remembers whether `ready` was called.
    #[derive(Default)]
    struct Told(AtomicBool);

    impl Sink for &Told {
        fn ready(&mut self, members: &[Member], threads: &[Pid]) -> Result<(), RunError> {
            assert_eq!(members.len(), threads.len());
            assert!(threads.iter().all(|&id| id != Pid::IDLE));
            self.0.store(true, Ordering::SeqCst);
            Ok(())
        }
        fn records(&mut self, _: &Block, _: &[u64]) -> Result<(), RunError> {
            Ok(())
        }
        fn tick(&mut self, _: Duration) {}
    }

    fn members(n: usize) -> Vec<Member> {
        (0..n)
            .map(|i| Member {
                name: format!("iw-test-{i}"),
                cpu: Cpu::new(0),
                realtime: None,
            })
            .collect()
    }

    fn run_all<R: Send>(
        members: &[Member],
        bodies: Vec<impl FnOnce() -> R + Send>,
        mut told: &Told,
    ) -> Result<Vec<R>, WorkloadError> {
        let mut calibration = Calibration::begin(Counter::Monotonic);
        let halt = AtomicBool::new(false);
        run(
            members,
            bodies,
            &halt,
            &mut calibration,
            &mut told,
            |_, _| Ok(()),
        )
    }

    #[test]
    fn bodies_begin_after_all_are_ready_and_return_in_order() {
        let told = Told::default();
        let bodies = (0..3)
            .map(|i| {
                let told = &told;
                move || (i, told.0.load(Ordering::SeqCst))
            })
            .collect();
        let results = run_all(&members(3), bodies, &told).expect("a crew");
        assert_eq!(results, [(0, true), (1, true), (2, true)]);
    }

    #[test]
    fn a_member_that_panics_is_an_error_and_the_others_end() {
        let bodies: Vec<Box<dyn FnOnce() + Send>> =
            vec![Box::new(|| panic!("on purpose")), Box::new(|| ())];
        let failed = run_all(&members(2), bodies, &Told::default()).expect_err("a panic");
        assert!(failed.to_string().contains("on purpose"), "{failed}");
    }

    #[test]
    fn no_body_begins_if_one_cannot_be_bound() {
        let mut members = members(2);
        members[1].cpu = Cpu::new(100_000);
        let begun = AtomicBool::new(false);
        let bodies = (0..2)
            .map(|_| || begun.store(true, Ordering::SeqCst))
            .collect();
        let failed = run_all(&members, bodies, &Told::default());
        assert!(matches!(failed, Err(WorkloadError::Pin { .. })));
        assert!(!begun.load(Ordering::SeqCst));
    }

    #[test]
    fn the_rank_that_gave_up_says_why_and_not_those_that_waited_for_it() {
        let peer = || Err(WorkloadError::Fabric(FabricError::PeerFailed));
        let wrong = |iteration| Err(WorkloadError::WrongSum { iteration });
        let ranks: [Result<u32, _>; 5] = [Ok(0), peer(), wrong(7), peer(), wrong(8)];
        let reason = all_of(Vec::from(ranks)).expect_err("ranks failed");
        assert!(
            matches!(reason, WorkloadError::WrongSum { iteration: 7 }),
            "{reason}"
        );
        let vague = all_of::<u32>(vec![peer(), peer()]).expect_err("ranks failed");
        assert!(matches!(
            vague,
            WorkloadError::Fabric(FabricError::PeerFailed)
        ));
        assert_eq!(all_of(vec![Ok(1), Ok(2)]).expect("all well"), [1, 2]);
    }

    #[test]
    fn a_sink_that_cannot_take_records_halts_the_bodies() {
        let halt = AtomicBool::new(false);
        let bodies = vec![|| {
            while !halt.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }];
        let full = |_: Pair, _: &mut dyn Sink| Err(RunError::Exists("/nowhere".into()));
        let mut calibration = Calibration::begin(Counter::Monotonic);
        let told = Told::default();
        let failed = run(
            &members(1),
            bodies,
            &halt,
            &mut calibration,
            &mut &told,
            full,
        );
        assert!(matches!(failed, Err(WorkloadError::Run(_))), "{failed:?}");
    }
}
