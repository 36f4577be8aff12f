//! Shows an answer, as text of 80 columns and as JSON.

use super::options::{CollectiveArgs, EffortArgs, StencilArgs, Waiting};
use super::question::{Outcome, RISES, Row, Subject};
use idlewave_noise::{Clock, NoiseModel};
use idlewave_simulate::question::{Interval, PathShares, Wave};
use idlewave_units::foreign::column;
use idlewave_units::show::{self, percent, percent_range};
use idlewave_units::{Nanos, counted, grouped};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// A description of the program.
pub fn stencil(args: &StencilArgs) -> String {
    let reach = match args.reach {
        1 => "nearest neighbours".to_owned(),
        d => format!("{d} neighbours"),
    };
    let sides = if args.one_sided {
        "on one side"
    } else {
        "on both sides"
    };
    let ends = if args.open { "open ends" } else { "periodic" };
    let wait = match args.wait {
        Waiting::All => "waits for all",
        Waiting::Blocking => "waits for one by one",
        Waiting::Overlapped => "computes before it waits",
    };
    format!("stencil of {reach} {sides}, {ends}, {wait}")
}

/// A description of the program.
pub fn collective(args: &CollectiveArgs) -> String {
    let algorithm = args
        .algorithm
        .unwrap_or_else(|| args.operation.algorithms()[0]);
    format!("computation and {}, {algorithm}", args.operation)
}

/// The share of a CPU that all sources take together; `None` if one has no mean.
pub fn stolen(model: &NoiseModel) -> Option<f64> {
    let shares = model.sources.iter().map(|s| s.stolen(model.cpus_per_node));
    shares.sum()
}

/// The slow-down over the stolen share.
fn amplification(row: &Row, stolen: Option<f64>) -> Option<f64> {
    let stolen = stolen.filter(|s| *s > 0.0)?;
    Some(row.answer.slowdown.mean / stolen)
}

/// What the numbers do not cover.
fn not_modelled(subject: &Subject<'_>) -> Vec<&'static str> {
    let mut all = vec![
        "contention between messages on the links of a network",
        "events longer than those of the model, and changes of its rates",
    ];
    if subject.free {
        all.push("the cost of messages, except what --comm gives");
    }
    all
}

/// A slow-down as text. It counts as not known if its interval reaches from no slow-down to more
/// than twice the time (docs/method.md).
fn slowdown(interval: &Interval) -> String {
    match interval.low <= 0.0 && interval.high > 1.0 {
        true => "not known".to_owned(),
        false => show::slowdown(interval.mean),
    }
}

/// The clock by which noise takes its share of a CPU.
pub fn by_clock(model: &NoiseModel) -> &'static str {
    match model.clock {
        Clock::Wall => "by the wall clock",
        Clock::Work => "while its rank computes",
    }
}

/// The number of CPUs per node as text.
pub fn cpus_per_node(model: &NoiseModel) -> String {
    match model.cpus_per_node {
        1 => "1 CPU per node".to_owned(),
        n => format!("{n} CPUs per node"),
    }
}

/// The name of a run in a table: the last part of its path.
pub fn last_part(path: &Path) -> String {
    let last = path.file_name().unwrap_or(path.as_os_str());
    last.to_string_lossy().into_owned()
}

/// The complete text.
pub fn text(subject: &Subject<'_>, outcome: &Outcome) -> String {
    let Subject {
        what,
        noise,
        effort,
        model,
        ..
    } = subject;
    let taken = stolen(model);
    let mut out = format!("SIMULATED\n  {what}\n");
    let share = taken.map_or("no mean".to_owned(), percent);
    let more = match (noise.cosched, noise.quiet_cpu) {
        (true, Some(n)) => format!(", co-scheduled, {n} quiet CPU per node"),
        (true, None) => ", co-scheduled".to_owned(),
        (false, Some(n)) => format!(", {n} quiet CPU per node"),
        (false, None) => String::new(),
    };
    let when = by_clock(model);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "  {} {share} of a CPU {when}{more}\n  {}, seed {}\n",
        match model.sources.len() {
            1 => "noise of 1 source takes".to_owned(),
            n => format!("noise of {n} sources takes"),
        },
        cpus_per_node(model),
        effort.seed
    );
    table(&mut out, outcome, effort, model);
    details(&mut out, outcome, model);
    if let Some(wave) = &outcome.wave {
        idle_wave(&mut out, wave, subject);
    }
    out.push_str("\nNOT MODELLED\n");
    for what in not_modelled(subject) {
        let _ = writeln!(out, "  {what}");
    }
    next(&mut out, outcome, model);
    out
}

/// A table with one line per point.
pub fn table(out: &mut String, outcome: &Outcome, effort: &EffortArgs, model: &NoiseModel) {
    let taken = stolen(model);
    let _ = writeln!(
        out,
        "{:>10} {:>4} {:>9} {:>10} {:>17} {:>7} {:>8} {:>5}",
        "ranks", "dims", "compute", "slow-down", "95 %", "ampl.", "steps", "runs"
    );
    for row in &outcome.rows {
        let slow = &row.answer.slowdown;
        let dims = row.at.point.dims.map_or("-".to_owned(), |d| d.to_string());
        let ampl = amplification(row, taken).map_or("-".to_owned(), show::factor);
        let mark = match (row.answer.precise, row.answer.still_rises(RISES)) {
            (true, false) => "",
            (false, false) => " *",
            (true, true) => " +",
            (false, true) => " *+",
        };
        let _ = writeln!(
            out,
            "{:>10} {dims:>4} {:>9} {:>10} {:>17} {ampl:>7} {:>8} {:>5}{mark}",
            grouped(u64::from(row.at.point.ranks)),
            row.at.point.grain,
            slowdown(slow),
            show::slowdown_range(slow.mean, slow.low, slow.high),
            grouped(row.at.extent.steps),
            row.answer.replications,
        );
    }
    if outcome.rows.iter().any(|r| !r.answer.precise) {
        let _ = writeln!(
            out,
            "  * wider than {} % of the slow-down: more --replications or --steps help",
            effort.precision
        );
    }
    if outcome.rows.iter().any(|r| r.answer.still_rises(RISES)) {
        out.push_str("  + still rose while it was averaged: a longer --warm-up gives more\n");
    }
    let mut fewer = outcome
        .rows
        .iter()
        .filter(|r| r.at.extent.smaller.is_some());
    if let Some(row) = fewer.next_back() {
        let ranks = grouped(u64::from(row.at.simulated_ranks()));
        let steps = grouped(row.at.extent.warm_up + row.at.extent.steps);
        let _ = writeln!(
            out,
            "  A ring of more than {ranks} ranks is simulated with that many, for longer: within\n  {steps} steps no rank is affected by more. The long run is estimated from them."
        );
    }
}

/// What the last point consists of.
pub fn details(out: &mut String, outcome: &Outcome, model: &NoiseModel) {
    if let Some(row) = outcome.deep() {
        without(out, row, model);
    }
    if let Some(path) = &outcome.path {
        shares(out, path, model);
    }
}

/// The next steps.
fn next(out: &mut String, outcome: &Outcome, model: &NoiseModel) {
    out.push_str("\nNEXT\n");
    let worst = outcome.deep().and_then(|row| {
        let saved = |w: &&idlewave_simulate::question::Without| w.saved.mean;
        let without = row.answer.without.iter();
        without.max_by(|a, b| saved(a).total_cmp(&saved(b)))
    });
    match worst.filter(|w| w.saved.low > 0.0) {
        _ if model.sources.is_empty() => out.push_str(
            "  There is no noise: give some with --noise, from a run of idlewave study or\n  made up (poisson:10ms:50us).\n",
        ),
        Some(worst) => {
            let _ = writeln!(
                out,
                "  {}\n  costs most here: look at it first. --cosched and --quiet-cpu 1 show what\n  moving noise would save, --ranks 1e2..1e6 how it grows.",
                column(&worst.name, 78)
            );
        }
        None => out.push_str(
            "  No single source stands out. --cosched and --quiet-cpu 1 show what moving\n  noise would save, --ranks 1e2..1e6 how it grows.\n",
        ),
    }
}

/// What removing single sources saves at the last point.
fn without(out: &mut String, row: &Row, model: &NoiseModel) {
    if row.answer.without.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nWITHOUT ONE SOURCE, at {ranks} and {}\n  {:<34} {:>9} {:>9} {:>20}",
        row.at.point.grain,
        "source",
        "takes",
        "it costs",
        "95 %",
        ranks = counted(row.at.point.ranks, "rank")
    );
    let whole = row.answer.slowdown.mean;
    for one in &row.answer.without {
        let takes = one.sources.iter().map(|&source| {
            let source = model.sources.get(source)?;
            source.stolen(model.cpus_per_node)
        });
        let takes = takes.sum::<Option<f64>>().map_or("-".to_owned(), percent);
        let name = column(&one.name, 34);
        let _ = writeln!(
            out,
            "  {name:<34} {takes:>9} {:>9} {:>20}",
            show::slowdown_part(whole, one.saved.mean),
            show::slowdown_part_range(whole, one.saved.low, one.saved.high)
        );
    }
}

/// The most sources of the critical path that are listed.
const LISTED: usize = 8;

fn shares(out: &mut String, path: &PathShares, model: &NoiseModel) {
    let _ = writeln!(
        out,
        "\nWHAT THE LAST FINISH IS MADE OF (critical path of the last {}, {})\n  {:<34} {:>9} {:>20}",
        counted(path.steps, "step"),
        counted(path.replications, "run"),
        "computation, undisturbed",
        percent(path.work.mean),
        percent_range(path.work.low, path.work.high)
    );
    let mut line = |name: &str, share: &Interval| {
        let name = column(name, 34);
        let _ = writeln!(
            out,
            "  {name:<34} {:>9} {:>20}",
            percent(share.mean),
            percent_range(share.low, share.high)
        );
    };
    line("messages", &path.communication);
    for noise in path.noise.iter().take(LISTED) {
        let name = name_of(model, noise.source);
        line(&name, &noise.share);
    }
    if path.noise.len() > LISTED {
        let rest: f64 = path.noise[LISTED..].iter().map(|n| n.share.mean).sum();
        let more = path.noise.len() - LISTED;
        let _ = writeln!(out, "  and {more} more: {}", percent(rest));
    }
}

/// The name of a source by its number; the number after the last is the one-off delay.
fn name_of(model: &NoiseModel, source: u32) -> String {
    let source = model.sources.get(source as usize);
    source.map_or("one-off delay".to_owned(), |s| s.label())
}

/// The number of steps of a wave that are listed.
const WAVE_ROWS: usize = 6;

fn idle_wave(out: &mut String, wave: &Wave, subject: &Subject<'_>) {
    let Some(delay) = subject.delay else { return };
    let _ = writeln!(
        out,
        "\nIDLE WAVE of {} at rank {} in step {}",
        Nanos::from_nanos(delay.ns),
        delay.rank,
        delay.step
    );
    match wave.speed {
        Some(speed) => {
            let _ = writeln!(out, "  speed   {speed:.2} ranks per step upwards");
        }
        None => out.push_str("  speed   it does not travel upwards\n"),
    }
    if let Some(decay) = wave.decay_ns {
        let share = decay / delay.ns as f64;
        let _ = writeln!(
            out,
            "  decay   {decay:.0} ns per rank, {} of its height",
            percent(share)
        );
    }
    let _ = writeln!(
        out,
        "  {:>11} {:>11} {:>9} {:>9} {:>12} {:>14}",
        "steps later", "late ranks", "down to", "up to", "latest", "lost by all"
    );
    let every = (wave.steps.len() / WAVE_ROWS).max(1);
    for step in wave.steps.iter().step_by(every) {
        let reach = |r: Option<u32>| r.map_or("-".to_owned(), |r| r.to_string());
        let lost = u64::try_from(step.lost_ns).unwrap_or(u64::MAX);
        let _ = writeln!(
            out,
            "  {:>11} {:>11} {:>9} {:>9} {:>12} {:>14}",
            step.after,
            grouped(step.late_ranks),
            reach(step.down),
            reach(step.up),
            Nanos::from_nanos(step.peak_ns).to_string(),
            Nanos::from_nanos(lost).to_string()
        );
    }
}

pub fn interval(interval: &Interval) -> Value {
    json!({ "value": interval.mean, "low": interval.low, "high": interval.high })
}

fn point_value(row: &Row, taken: Option<f64>) -> Value {
    let without: Vec<Value> = row
        .answer
        .without
        .iter()
        .map(|w| {
            json!({
                "source": w.name,
                "slowdown": interval(&w.slowdown),
                "saved": interval(&w.saved),
            })
        })
        .collect();
    json!({
        "ranks": row.at.point.ranks,
        "dims": row.at.point.dims,
        "granularity_ns": row.at.point.grain.get(),
        "simulated_ranks": row.at.simulated_ranks(),
        "steps": row.at.extent.steps,
        "warm_up": row.at.extent.warm_up,
        "long_run": row.answer.long_run,
        "unseen": interval(&row.answer.unseen),
        "replications": row.answer.replications,
        "precise": row.answer.precise,
        "still_rises": row.answer.still_rises(RISES),
        "undisturbed_step_ns": row.answer.quiet_step_ns,
        "step_ns": interval(&row.answer.step_ns),
        "slowdown": interval(&row.answer.slowdown),
        "amplification": amplification(row, taken),
        "without": without,
    })
}

/// The JSON.
pub fn value(subject: &Subject<'_>, outcome: &Outcome) -> Value {
    let (noise, model) = (subject.noise, subject.model);
    let taken = stolen(model);
    let of = |row: &Row| point_value(row, taken);
    let rows: Vec<Value> = outcome.rows.iter().map(of).collect();
    let path = outcome.path.as_ref().map(|path| {
        let noise: Vec<Value> = path
            .noise
            .iter()
            .map(|n| json!({ "source": name_of(model, n.source), "share": interval(&n.share) }))
            .collect();
        json!({
            "steps": path.steps,
            "replications": path.replications,
            "work": interval(&path.work),
            "communication": interval(&path.communication),
            "noise": noise,
        })
    });
    let wave = outcome.wave.as_ref().map(|wave| {
        let steps: Vec<Value> = wave
            .steps
            .iter()
            .map(|s| {
                json!({
                    "after": s.after, "late_ranks": s.late_ranks, "down": s.down, "up": s.up,
                    "peak_ns": s.peak_ns, "lost_ns": s.lost_ns as f64,
                })
            })
            .collect();
        json!({
            "speed_ranks_per_step": wave.speed,
            "decay_ns_per_rank": wave.decay_ns,
            "heights_ns": wave.heights_ns,
            "steps": steps,
        })
    });
    json!({
        "simulated": subject.what,
        "seed": subject.effort.seed,
        "noise": {
            "sources": model.sources.iter().map(|s| s.label()).collect::<Vec<_>>(),
            "stolen": taken,
            "cpus_per_node": model.cpus_per_node,
            "cosched": noise.cosched,
            "exposure": model.clock == Clock::Work,
            "quiet_cpus": noise.quiet_cpu,
        },
        "points": rows,
        "single_sources": outcome.deep.as_ref().map(of),
        "critical_path": path,
        "idle_wave": wave,
        "not_modelled": not_modelled(subject),
    })
}
