//! A planted culprit: busy for a fixed CPU time, once per period, under a name of its own.
//!
//! `idlewave study` must find it. At the end it prints what it really did as one line of JSON:
//!
//! ```text
//! cargo run --release -p idlewave --example culprit -- knave 500us 50ms 20s 0
//! ```
//!
//! It runs like any daemon, without raised priority. Given several CPUs, it visits them in turn: it
//! runs once on each, and moves on before it sleeps. SIGTERM ends it before its time; it prints the
//! line then too. `runs` has a row [CPU, begin, end] per period by CLOCK_MONOTONIC, `held` one for each
//! part of it during which no other program had the CPU: a run is cut where another preempted it.

use idlewave_sys::clock::{now, sleep_until, thread_time};
use idlewave_units::{Cpu, CpuSet, Nanos};
use signal_hook::consts::SIGTERM;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const USAGE: &str =
    "usage: culprit NAME LENGTH PERIOD DURATION CPUS, as in: knave 500us 50ms 20s 0";
/// Longest name the kernel keeps for a thread, without the terminating zero (`TASK_COMM_LEN`).
const NAME_BYTES: usize = 15;
/// It exits after this time even if it is forgotten.
const LONGEST: Nanos = Nanos::from_secs(600);

/// What to do.
struct Plan {
    name: String,
    length: Nanos,
    period: Nanos,
    duration: Nanos,
    cpus: Vec<Cpu>,
}

/// One busy stretch, as seen from inside, nanoseconds.
struct Busy {
    cpu: Cpu,
    /// By CLOCK_MONOTONIC.
    begin_ns: u64,
    /// By CLOCK_MONOTONIC, before it moves on.
    end_ns: u64,
    /// CPU time, moving on included.
    ran_ns: u64,
    /// Begin and end of each part between two preemptions.
    held: Vec<(u64, u64)>,
}

/// Readings of the clock this far apart may have a preemption between them: far longer than a turn
/// of the loop, far shorter than the time that a scheduler gives to another program.
const GAP_NS: u64 = 5_000;

/// Which parts of a busy stretch the thread had the CPU.
struct Held {
    parts: Vec<(u64, u64)>,
    begin_ns: u64,
    last_ns: u64,
    preemptions: i64,
}

impl Held {
    fn begin(begin_ns: u64) -> Self {
        Self {
            parts: Vec::new(),
            begin_ns,
            last_ns: begin_ns,
            preemptions: preemptions(),
        }
    }

    /// Notes that the thread runs.
    fn at(&mut self, now_ns: u64) {
        if now_ns - self.last_ns > GAP_NS {
            // An interrupt is no preemption: the CPU returns to this thread.
            let seen = preemptions();
            if seen != self.preemptions {
                self.parts.push((self.begin_ns, self.last_ns));
                (self.begin_ns, self.preemptions) = (now_ns, seen);
            }
        }
        self.last_ns = now_ns;
    }

    fn finish(mut self) -> Vec<(u64, u64)> {
        self.parts.push((self.begin_ns, self.last_ns));
        self.parts
    }
}

/// How often another program has taken the CPU from this thread.
fn preemptions() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage` to the address of one; all bytes zero are one too.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_nivcsw
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match plan(&words).and_then(|plan| run(&plan).map(|runs| print(&plan, &runs))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("culprit: {why}");
            ExitCode::FAILURE
        }
    }
}

fn plan(words: &[String]) -> Result<Plan, String> {
    let [name, length, period, duration, cpus] = words else {
        return Err(USAGE.to_owned());
    };
    let time = |word: &String| {
        word.parse::<Nanos>()
            .map_err(|e| format!("failed to read `{word}`: {e}"))
    };
    let set: CpuSet = cpus
        .parse()
        .map_err(|e| format!("failed to read `{cpus}`: {e}"))?;
    let plan = Plan {
        name: name.clone(),
        length: time(length)?,
        period: time(period)?,
        duration: time(duration)?,
        cpus: set.iter().collect(),
    };
    if plan.name.len() > NAME_BYTES || plan.name.contains(['"', '\\', '\0']) {
        return Err(format!("`{name}` is no name of at most {NAME_BYTES} bytes"));
    }
    if plan.cpus.is_empty() || plan.length >= plan.period || plan.duration > LONGEST {
        return Err(format!(
            "needs a CPU, a length below the period and at most {LONGEST}; {USAGE}"
        ));
    }
    Ok(plan)
}

fn run(plan: &Plan) -> Result<Vec<Busy>, String> {
    let ended = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, ended.clone())
        .map_err(|e| format!("failed to watch for SIGTERM: {e}"))?;
    // Whoever sees the name may send the signal.
    let name = std::ffi::CString::new(plan.name.as_str()).map_err(|e| e.to_string())?;
    rustix::thread::set_name(&name).map_err(|e| format!("failed to take its name: {e}"))?;
    let begin = now().get();
    let end = begin + plan.duration.get();
    let mut runs: Vec<Busy> = Vec::new();
    let mut next = begin + plan.period.get();
    pin(plan.cpus[0])?;
    while next < end && !ended.load(Ordering::Relaxed) {
        sleep_until(Nanos::from_nanos(next));
        let before = thread_time().get();
        let begin_ns = now().get();
        let mut held = Held::begin(begin_ns);
        while thread_time().get() - before < plan.length.get() {
            held.at(now().get());
        }
        let end_ns = now().get();
        held.at(end_ns);
        let place = runs.len();
        if plan.cpus.len() > 1 {
            pin(plan.cpus[(place + 1) % plan.cpus.len()])?;
        }
        runs.push(Busy {
            cpu: plan.cpus[place % plan.cpus.len()],
            begin_ns,
            end_ns,
            ran_ns: thread_time().get() - before,
            held: held.finish(),
        });
        next += plan.period.get();
    }
    Ok(runs)
}

fn print(plan: &Plan, runs: &[Busy]) {
    let ran = spread(runs.iter().map(|r| r.ran_ns).collect());
    let took = spread(runs.iter().map(|r| r.end_ns - r.begin_ns).collect());
    let rows = |rows: Vec<(Cpu, u64, u64)>| {
        let rows = rows
            .iter()
            .map(|(cpu, from, to)| format!("[{cpu},{from},{to}]"));
        rows.collect::<Vec<_>>().join(",")
    };
    let whole = runs.iter().map(|r| (r.cpu, r.begin_ns, r.end_ns));
    let held = runs
        .iter()
        .flat_map(|r| r.held.iter().map(|&(from, to)| (r.cpu, from, to)));
    // The process that started it may no longer read this.
    let _ = writeln!(
        std::io::stdout(),
        "{{\"name\":\"{}\",\"period_ns\":{},\"count\":{},\"ran_ns\":{ran},\"took_ns\":{took},\"runs\":[{}],\"held\":[{}]}}",
        plan.name,
        plan.period.get(),
        runs.len(),
        rows(whole.collect()),
        rows(held.collect())
    );
}

/// Minimum, median and maximum as JSON.
fn spread(mut values: Vec<u64>) -> String {
    values.sort_unstable();
    match (values.first(), values.last()) {
        (Some(min), Some(max)) => {
            let median = values[values.len() / 2];
            format!("{{\"min\":{min},\"median\":{median},\"max\":{max}}}")
        }
        _ => "null".to_owned(),
    }
}

fn pin(cpu: Cpu) -> Result<(), String> {
    let bound = idlewave_sys::affinity::bind(&[cpu].into_iter().collect());
    bound.map_err(|e| format!("failed to move to its CPU: {e}"))
}
