//! Planted culprits, end to end: a program of known name, period and length disturbs the lockstep
//! runs of a study, and the study must name it.
//!
//! Which iterations a culprit hit is taken from the culprit's own record of when it ran, not from
//! the kernel trace behind the explanation. Only iterations that no other program hit count, by the
//! kernel's record of who ran: iterations hit by a concurrent compiler are late because of the
//! compiler. The table also shows the share over all of them.
//!
//! The share is of the time that the culprit itself reports to have run in those steps. A share of
//! their whole lateness would be a matter of luck: a host may pause a CPU for some milliseconds,
//! which no account of the machine shows and which rightly stays unexplained. The table shows that
//! share too.

#![allow(clippy::unwrap_used)]

#[path = "common/culprit.rs"]
mod culprit;
#[path = "common/precedence.rs"]
mod precedence;

use culprit::{Culprit, Done, Strangers, Stretch, overlap, overlaps, two_cpus};
use idlewave_run::findings::{Findings, SourceFinding};
use idlewave_run::tables::{LateParts, LateStep, LateSteps};
use idlewave_run::{RunReader, SourceKind, Table, TraceMode};
use idlewave_sys::affinity::bind;
use idlewave_units::{Cpu, CpuSet, NodeId};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Measured by every study.
const STUDY_SECONDS: u32 = 12;
/// The culprits start before the study and outlast its measurement.
const CULPRIT_SECONDS: u32 = 18;
/// What a culprit takes beyond its own work: its trace events and, on a fast machine, waking up and
/// two switches.
const TRACED_SWITCH_NS: f64 = 10_000.0;
/// How many wake-ups to time to get the cost of one.
const WAKE_UPS: usize = 200;
/// Studies per case, at most; busy machines need several.
const ATTEMPTS: usize = 3;
/// Fewer hit steps than this say nothing about the share. A quiet machine gives over a hundred.
const STEPS_NEEDED: usize = 8;

/// What is planted.
struct Planted {
    name: &'static str,
    period_us: u32,
    length_us: u32,
    cpus: Vec<Cpu>,
}

/// The study's findings on one culprit.
struct Verdict {
    line: String,
    misses: Vec<String>,
}

/// One case, repeated if it fails on a busy machine.
fn case(title: &str, planted: &[Planted]) {
    println!("{title}");
    for attempt in 1..=ATTEMPTS {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let done = study(&run, planted);
        let reader = RunReader::open(&run).unwrap();
        let findings = reader.findings().unwrap().expect("study explains its run");
        if findings.trace.mode != TraceMode::Tracefs {
            let missing = findings.trace.unavailable.iter();
            let missing: Vec<String> = missing.map(|u| format!("{}: {}", u.what, u.why)).collect();
            println!("skipped: no kernel trace: {}", missing.join("; "));
            return;
        }
        println!(
            "  {:<15} {:>9} {:>12} {:>9} {:>9} {:>5} {:>10} {:>8} {:>7} {:>8} {:>8}",
            "name",
            "period",
            "found",
            "length",
            "found",
            "hit",
            "late by",
            "charged",
            "alone",
            "charged",
            "of ran"
        );
        let switch_ns = TRACED_SWITCH_NS + wake_up_ns();
        let mut misses = Vec::new();
        for (one, done) in planted.iter().zip(&done) {
            let verdict = judge(&reader, &findings, one, done, switch_ns);
            println!("{}", verdict.line);
            misses.extend(verdict.misses);
        }
        if misses.is_empty() {
            return;
        }
        let others = busy_with_others(&findings, planted);
        let why = format!(
            "others used {:.1} % of the CPUs; {}",
            100.0 * others,
            misses.join("; ")
        );
        assert!(attempt < ATTEMPTS, "{title}: {why}");
        println!("  again: {why}");
    }
}

/// Runs the culprits and, meanwhile, a study of the two CPUs.
fn study(run: &Path, planted: &[Planted]) -> Vec<Done> {
    let culprits: Vec<Culprit> = planted
        .iter()
        .map(|p| Culprit::start(p.name, p.length_us, p.period_us, CULPRIT_SECONDS, &p.cpus))
        .collect();
    let output = Command::new(env!("CARGO_BIN_EXE_idlewave"))
        // What it predicts for many ranks is not looked at.
        .env("IDLEWAVE_EFFORT", "0.0001")
        .args(["study", "--json", "--duration"])
        .arg(format!("{STUDY_SECONDS}s"))
        .arg("--cpus")
        .arg(two_cpus().unwrap().map(|c| c.to_string()).join(","))
        .arg("-o")
        .arg(run)
        .output()
        .unwrap();
    let done = culprits.into_iter().map(Culprit::finish).collect();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    done
}

/// The median time that a thread which wakes up and sleeps again at once takes from another on its
/// CPU: microseconds on bare metal, tens of them on a guest whose host intercepts its timer.
fn wake_up_ns() -> f64 {
    let cpu: CpuSet = two_cpus().unwrap().into_iter().take(1).collect();
    let done = AtomicBool::new(false);
    let (woken, gaps) = std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            bind(&cpu).unwrap();
            let wake_up = |_| {
                std::thread::sleep(Duration::from_millis(2));
                Instant::now()
            };
            let woken: Vec<Instant> = (0..WAKE_UPS).map(wake_up).collect();
            done.store(true, Ordering::Relaxed);
            woken
        });
        let spinner = scope.spawn(|| {
            bind(&cpu).unwrap();
            let mut gaps = Vec::new();
            let mut before = Instant::now();
            while !done.load(Ordering::Relaxed) {
                let now = Instant::now();
                if now - before > Duration::from_micros(1) {
                    gaps.push((before, now));
                }
                before = now;
            }
            gaps
        });
        (sleeper.join().unwrap(), spinner.join().unwrap())
    });
    let gap = |at: &Instant| gaps.iter().find(|(begin, end)| begin <= at && at <= end);
    let mut taken: Vec<Duration> = woken.iter().filter_map(gap).map(|(b, e)| *e - *b).collect();
    assert!(taken.len() > WAKE_UPS / 2, "{} of {WAKE_UPS}", taken.len());
    taken.sort_unstable();
    taken[taken.len() / 2].as_nanos() as f64
}

fn judge(
    run: &RunReader,
    findings: &Findings,
    planted: &Planted,
    done: &Done,
    switch_ns: f64,
) -> Verdict {
    let name = planted.name;
    let place = findings
        .sources
        .iter()
        .position(|s| s.kind == SourceKind::Task && s.name == name);
    let source: Option<&SourceFinding> = place.map(|i| &findings.sources[i]);
    let mut misses = Vec::new();
    let mut expect = |fits: bool, what: String| {
        if !fits {
            misses.push(format!("{name}: {what}"));
        }
    };
    expect(source.is_some(), "not named".to_owned());

    let period_ns = f64::from(planted.period_us) * 1e3;
    let period = source.and_then(|s| s.period.as_ref());
    let period = period.map_or(0.0, |p| p.period.value);
    let off = period / period_ns - 1.0;
    expect(
        off.abs() <= 0.01,
        format!("period {period:.0} ns of {period_ns:.0}"),
    );

    let length = source.and_then(|s| s.length.as_ref());
    let length = length.map_or(0.0, |l| l.value);
    let ran_ns = done.ran_ns.expect("the culprit ran");
    expect(
        (length - ran_ns).abs() <= 0.1 * ran_ns + switch_ns,
        format!("length {length:.0} ns of {ran_ns:.0}"),
    );

    let all = Charged::of(run, done, place, |_| true);
    let strangers = Strangers::of(run, NodeId::new(0), name);
    let alone = Charged::of(run, done, place, |step| !strangers.ran_in(step));
    expect(
        alone.steps >= STEPS_NEEDED,
        format!("hit {} late steps alone", alone.steps),
    );
    expect(
        alone.of_ran() >= 0.9
            && alone.charged as f64 <= 1.1 * alone.ran as f64 + alone.switches_ns(switch_ns),
        format!("charged with {:.1} % of its time", 100.0 * alone.of_ran()),
    );
    Verdict {
        line: format!(
            "  {name:<15} {:>6.1} ms {:>9.4} ms {:>6.1} us {:>6.1} us {:>5} {:>7.2} ms {:>6.1} % {:>7} {:>6.1} % {:>6.1} %",
            period_ns / 1e6,
            period / 1e6,
            ran_ns / 1e3,
            length / 1e3,
            all.steps,
            all.late as f64 / 1e6,
            100.0 * all.share(),
            alone.steps,
            100.0 * alone.share(),
            100.0 * alone.of_ran(),
        ),
        misses,
    }
}

/// Late steps during which a culprit ran on the CPU of the rank that set the pace.
struct Charged {
    steps: usize,
    /// Their lateness, nanoseconds.
    late: u64,
    /// How much of it the culprit took by its own record, nanoseconds.
    ran: u64,
    /// How much of it is charged to the culprit, nanoseconds.
    charged: u64,
}

impl Charged {
    /// For the steps that `counts` accepts; `place` is the culprit's row in the table of sources.
    fn of(
        run: &RunReader,
        done: &Done,
        place: Option<usize>,
        counts: impl Fn(&Stretch) -> bool,
    ) -> Self {
        let ranks = &run.manifest().ranks;
        let steps = run.read::<LateSteps>().unwrap();
        let stretch = |s: &LateStep| (ranks[s.rank.index()].cpu.unwrap(), s.begin_ns, s.end_ns);
        let hit: Vec<bool> = steps
            .rows()
            .map(|s| overlaps(&done.runs, &stretch(&s)) && counts(&stretch(&s)))
            .collect();
        let late: Vec<LateStep> = steps
            .rows()
            .zip(&hit)
            .filter(|(_, hit)| **hit)
            .map(|(s, _)| s)
            .collect();
        let ran = late
            .iter()
            .map(|s| overlap(&done.runs, &stretch(s)).min(s.lateness.get()))
            .sum();
        let charged = run
            .read::<LateParts>()
            .unwrap()
            .rows()
            .filter(|p| hit[p.step as usize] && Some(p.finding as usize) == place)
            .map(|p| p.time.get())
            .sum();
        Self {
            steps: late.len(),
            late: late.iter().map(|s| s.lateness.get()).sum(),
            ran,
            charged,
        }
    }

    fn share(&self) -> f64 {
        self.charged as f64 / self.late.max(1) as f64
    }

    /// The time of switches to the culprit and back in all these steps, nanoseconds.
    fn switches_ns(&self, switch_ns: f64) -> f64 {
        self.steps as f64 * switch_ns
    }

    fn of_ran(&self) -> f64 {
        self.charged as f64 / self.ran.max(1) as f64
    }
}

/// Share of the CPUs used by processes other than the study and its culprits.
fn busy_with_others(findings: &Findings, planted: &[Planted]) -> f64 {
    let cpus = f64::from(findings.contamination.cpus.max(1));
    let own: f64 = planted
        .iter()
        .map(|p| f64::from(p.length_us) / f64::from(p.period_us) / cpus)
        .sum();
    findings.contamination.others.map_or(0.0, |o| o - own)
}

/// One test, because its studies must not disturb each other.
#[test]
fn planted_culprits_are_named_measured_and_charged() {
    precedence::go_before_others();
    let Some([first, second]) = two_cpus() else {
        println!("skipped: fewer than 2 CPUs are allowed");
        return;
    };
    let planted = |name, length_us, period_us, cpus: &[Cpu]| Planted {
        name,
        period_us,
        length_us,
        cpus: cpus.to_vec(),
    };
    case(
        "two culprits with different periods on different CPUs",
        &[
            planted("culprit-fifty", 500, 50_000, &[first]),
            planted("culprit-eighty", 500, 83_000, &[second]),
        ],
    );
    if !idlewave_mpi::testing::long() {
        println!(
            "left out: one on one CPU, one on all CPUs in turn; IDLEWAVE_LONG=1 plants them too"
        );
        return;
    }
    case(
        "one culprit on one CPU",
        &[planted("culprit-one", 500, 50_000, &[second])],
    );
    case(
        "one culprit on all CPUs in turn",
        &[planted("culprit-roams", 500, 50_000, &[first, second])],
    );
}
