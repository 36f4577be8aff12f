//! Records the switches of some threads and drains their rings.

use super::bursts::{Thread, bursts};
use super::error::PerfError;
use super::record::{Event, parse};
use super::ring::Ring;
use idlewave_clock::monotonic_ns;
use idlewave_run::Table;
use idlewave_run::tables::{Burst, Bursts};
use idlewave_sys::process::own_thread;
use idlewave_units::{Cpu, NodeId, Pid};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The reader's sleep between two drains. At this interval a ring of 8,192 records holds 80,000
/// switches per second and thread.
const DRAIN_EVERY: Duration = Duration::from_millis(100);
/// Most records kept of all threads together (24 bytes each); further ones count as lost.
const MAX_RECORDS: usize = 8 << 20;

/// Records when own threads were on a CPU, without privileges (`kernel.perf_event_paranoid` up to
/// 2). Dropping it ends the recording.
#[derive(Debug)]
pub struct SwitchRecorder {
    /// Dropped to stop the reader.
    stop: Option<Sender<()>>,
    reader: Option<JoinHandle<Vec<Recording>>>,
    reader_pid: Pid,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchRecords {
    /// Bursts of the threads, by start. Between two bursts the thread was runnable if the first
    /// one's end reason is `PREEMPTED`; `SLEEPING` stands for every other reason, as the record
    /// does not distinguish sleep, uninterruptible sleep and stop.
    pub bursts: Bursts,
    /// Records lost because a ring was full. Bursts beside a loss are left out.
    pub lost: u64,
}

/// One thread's records.
#[derive(Debug)]
struct Recording {
    pid: Pid,
    ring: Ring,
    begin_ns: u64,
    end_ns: u64,
    events: Vec<Event>,
}

impl SwitchRecorder {
    /// Starts to record the switches of `tids`, threads of this process. The reader inherits the
    /// calling thread's affinity and wakes ten times per second.
    ///
    /// Errors: the first thread that cannot be recorded, see [`PerfError`]. In that case nothing is
    /// recorded.
    pub fn open(tids: &[Pid]) -> Result<SwitchRecorder, PerfError> {
        let mut recordings = Vec::with_capacity(tids.len());
        for pid in tids {
            let ring = Ring::open(*pid)?;
            let begin_ns = monotonic_ns();
            recordings.push(Recording {
                pid: *pid,
                ring,
                begin_ns,
                end_ns: begin_ns,
                events: Vec::new(),
            });
        }
        let (stop, stopped) = channel();
        let (tell, told) = channel();
        let reader = std::thread::Builder::new()
            .name("idlewave-perf".to_owned())
            .spawn(move || {
                // The other end waits for this one message.
                let _ = tell.send(own_thread());
                read(recordings, &stopped)
            })
            .map_err(PerfError::Reader)?;
        let reader_pid = told
            .recv()
            .map_err(|_| PerfError::Reader(std::io::Error::other("the reader ended at once")))?;
        Ok(SwitchRecorder {
            stop: Some(stop),
            reader: Some(reader),
            reader_pid,
        })
    }

    /// The thread that drains the rings, so that its time can be charged to the recorder.
    pub fn reader(&self) -> Pid {
        self.reader_pid
    }

    /// Ends the recording. The bursts are those of `node`.
    pub fn stop(mut self, node: NodeId) -> SwitchRecords {
        self.stop = None;
        let recordings = self.reader.take().and_then(|reader| reader.join().ok());
        let mut rows: Vec<Burst> = Vec::new();
        let mut lost = 0u64;
        for mut recording in recordings.unwrap_or_default() {
            let totals = recording.ring.totals();
            lost = lost.saturating_add(recording.lost(totals.and_then(|t| t.lost)));
            let ran = totals.is_some_and(|t| t.running_ns > 0);
            let thread = Thread {
                node,
                pid: recording.pid,
                begin_ns: recording.begin_ns,
                end_ns: recording.end_ns,
                unswitched_on: ran.then(|| cpu_of(recording.pid)).flatten(),
            };
            bursts(thread, &recording.events, |burst| rows.push(burst));
        }
        rows.sort_by_key(|b| (b.begin_ns, b.pid));
        let mut bursts = Bursts::default();
        rows.into_iter().for_each(|row| bursts.push(row));
        SwitchRecords { bursts, lost }
    }
}

impl Drop for SwitchRecorder {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has no records.
            let _ = reader.join();
        }
    }
}

impl Recording {
    /// Losses according to the records, or to the event's own count, which includes the last
    /// losses.
    fn lost(&self, counted: Option<u64>) -> u64 {
        let told = self.events.iter().fold(0u64, |sum, event| match event {
            Event::Lost { records } => sum.saturating_add(*records),
            _ => sum,
        });
        told.max(counted.unwrap_or(0))
    }

    fn drain(&mut self, bytes: &mut Vec<u8>, room: &mut usize) {
        bytes.clear();
        self.ring.drain(bytes);
        let events = &mut self.events;
        parse(bytes, |event| {
            if *room > 0 {
                *room -= 1;
                events.push(event);
            } else if let Some(Event::Lost { records }) = events.last_mut() {
                *records = records.saturating_add(1);
            } else {
                events.push(Event::Lost { records: 1 });
            }
        });
    }
}

/// Drains the rings until told to stop, then once more.
fn read(mut recordings: Vec<Recording>, stopped: &Receiver<()>) -> Vec<Recording> {
    let mut bytes = Vec::new();
    let mut room = MAX_RECORDS;
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(DRAIN_EVERY) {
        recordings
            .iter_mut()
            .for_each(|r| r.drain(&mut bytes, &mut room));
    }
    for recording in &mut recordings {
        // Set this before the last drain: no record may be later than the end that bounds the last
        // burst. The few from the instant in between are dropped.
        recording.end_ns = monotonic_ns();
        recording.drain(&mut bytes, &mut room);
        let end_ns = recording.end_ns;
        recording.events.retain(|event| match event {
            Event::In { time_ns, .. }
            | Event::Out { time_ns, .. }
            | Event::Exit { time_ns, .. } => *time_ns <= end_ns,
            Event::Lost { .. } => true,
        });
    }
    recordings
}

/// The CPU that a thread of this process was last on (field 39 of its stat).
fn cpu_of(pid: Pid) -> Option<Cpu> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_ascii_whitespace()
        .nth(39 - 3)?
        .parse()
        .ok()
        .map(Cpu::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::tables::EndReason;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A thread that sleeps this many times and ends, as soon as the sender is dropped.
    fn sleeper(times: u32, sleep: Duration) -> (Pid, Sender<()>, JoinHandle<()>) {
        let (tell, told) = channel();
        let (go, gone) = channel::<()>();
        let handle = std::thread::spawn(move || {
            tell.send(own_thread()).unwrap();
            let _ = gone.recv();
            (0..times).for_each(|_| std::thread::sleep(sleep));
        });
        (told.recv().unwrap(), go, handle)
    }

    /// Waits until a thread of this process sleeps.
    fn wait_for_sleep(pid: Pid) {
        let state = || std::fs::read_to_string(format!("/proc/self/task/{pid}/stat")).unwrap();
        while !state().contains(") S ") {
            std::thread::yield_now();
        }
    }

    /// How often a thread of this process has been preempted.
    fn preemptions(pid: Pid) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/self/task/{pid}/status")).unwrap();
        let mut lines = status.lines();
        let line = lines.find_map(|l| l.strip_prefix("nonvoluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    fn open(pids: &[Pid]) -> Option<SwitchRecorder> {
        match SwitchRecorder::open(pids) {
            Ok(recorder) => Some(recorder),
            Err(
                e @ (PerfError::NotPermitted { .. }
                | PerfError::Filtered(_)
                | PerfError::Unsupported(_)),
            ) => {
                println!("skipped: {e}");
                None
            }
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn known_sleeps_are_gaps_of_their_length() {
        let (times, sleep) = (20, Duration::from_millis(2));
        let (pid, go, handle) = sleeper(times, sleep);
        wait_for_sleep(pid);
        let begin = monotonic_ns();
        let Some(recorder) = open(&[pid]) else { return };
        assert_ne!(recorder.reader(), pid);
        let told = monotonic_ns();
        drop(go);
        handle.join().unwrap();
        // A joined thread has finished its program but may still be leaving the kernel.
        while std::path::Path::new(&format!("/proc/self/task/{pid}")).exists() {
            std::thread::yield_now();
        }
        let end = monotonic_ns();
        let records = recorder.stop(NodeId::new(3));
        assert_eq!(records.lost, 0);
        let rows: Vec<Burst> = records.bursts.rows().collect();
        let gaps: Vec<u64> = rows
            .windows(2)
            // Earlier bursts may end with its wait for the start.
            .filter(|w| w[0].end_reason == EndReason::Sleeping && w[0].end_ns >= told)
            .map(|w| w[1].begin_ns - w[0].end_ns)
            .collect();
        let slept = u64::try_from(sleep.as_nanos()).unwrap();
        // Entering and leaving the sleep in the kernel takes some microseconds of the 2 ms.
        let long = gaps.iter().filter(|g| **g > slept / 2).count();
        println!("{} bursts, gaps {gaps:?}", rows.len());
        assert_eq!(long, times as usize);
        assert_eq!(rows.last().unwrap().end_reason, EndReason::Exited);
        assert!(
            rows.iter()
                .all(|b| b.pid == pid && b.node == NodeId::new(3))
        );
        assert!(rows.iter().all(|b| b.begin_ns >= begin && b.end_ns <= end));
    }

    #[test]
    fn two_threads_on_one_cpu_preempt_each_other_and_never_run_at_once() {
        let cpus = crate::host::allowed_cpus().unwrap();
        let cpu = cpus.iter().next().unwrap();
        let stop = AtomicBool::new(false);
        let records = std::thread::scope(|scope| {
            let pids: Vec<Pid> = (0..2)
                .map(|_| {
                    let (tell, told) = channel();
                    let stop = &stop;
                    scope.spawn(move || {
                        bind(cpu);
                        tell.send(own_thread()).unwrap();
                        while !stop.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                    told.recv().unwrap()
                })
                .collect();
            let recorder = open(&pids);
            let before: Vec<u64> = pids.iter().map(|pid| preemptions(*pid)).collect();
            let few = || {
                pids.iter()
                    .zip(&before)
                    .any(|(pid, n)| preemptions(*pid) < n + 2)
            };
            // If others keep the CPU busy, a turn is a long time coming.
            let end = monotonic_ns() + 60_000_000_000;
            while recorder.is_some() && few() && monotonic_ns() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
            let records = recorder.map(|r| r.stop(NodeId::new(0)));
            stop.store(true, Ordering::Relaxed);
            records
        });
        let Some(records) = records else { return };
        let rows: Vec<Burst> = records.bursts.rows().collect();
        println!("{} bursts", rows.len());
        assert!(rows.iter().all(|b| b.cpu == cpu));
        assert!(rows.iter().any(|b| b.end_reason == EndReason::Preempted));
        let certain: Vec<&Burst> = rows.iter().filter(|b| b.certain).collect();
        assert!(certain.windows(2).all(|w| w[0].end_ns <= w[1].begin_ns));
    }

    #[test]
    fn a_thread_that_is_not_there_is_named() {
        let Some(_) = open(&[own_thread()]) else {
            return;
        };
        let nobody = Pid::new(0x7fff_fff0);
        let error = SwitchRecorder::open(&[nobody]).unwrap_err();
        assert!(matches!(error, PerfError::NoThread(pid) if pid == nobody));
    }

    #[test]
    fn a_thread_that_slept_throughout_has_no_burst() {
        let (pid, go, handle) = sleeper(0, Duration::ZERO);
        wait_for_sleep(pid);
        if let Some(recorder) = open(&[pid]) {
            let records = recorder.stop(NodeId::new(0));
            assert_eq!((records.bursts.len(), records.lost), (0, 0));
        }
        drop(go);
        handle.join().unwrap();
    }

    fn bind(cpu: Cpu) {
        idlewave_sys::affinity::bind(&[cpu].into_iter().collect()).unwrap();
    }
}
