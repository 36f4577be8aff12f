//! The summary of a measurement of every CPU by itself.

use crate::facts;
use crate::screen::{Screen, Style};
use idlewave_run::findings::{
    CpuNoise, DetourFindings, Estimate, Findings, FixedTimeFindings, FixedWorkFindings, LoadPoint,
    LoadSweep, Repeated,
};
use idlewave_units::show::{self, count, count_f64, percent, percent_range};
use idlewave_units::{Cpu, Nanos};

/// Lower edges of the lengths whose rates are shown; they are edges of the classes.
const RATES_FROM: [Nanos; 3] = [
    Nanos::from_micros(10),
    Nanos::from_micros(100),
    Nanos::from_millis(1),
];

/// What the loops saw on every CPU.
pub(super) fn measured(screen: &mut Screen, cpus: &[CpuNoise]) {
    let loops = cpus.iter().filter_map(|c| Some((c, c.detours.as_ref()?)));
    let loops: Vec<_> = loops.collect();
    if let Some((_, first)) = loops.first() {
        let from = first.threshold;
        screen.line(
            Style::Heading,
            &format!("DETOURS of {from} or more (stolen = share of the CPU's time, with 95 %)"),
        );
        let rows: Vec<Vec<String>> = loops.iter().map(|(cpu, d)| detours(cpu, d)).collect();
        let rates = RATES_FROM.map(|from| format!(">= {from}"));
        let mut header = vec!["CPU", "stolen", "", "rate", "longest"];
        header.extend(rates.iter().map(String::as_str));
        screen.table(&header, &rows);
    }
    in_fixed_times(screen, cpus);
    let works = cpus
        .iter()
        .filter_map(|c| Some((c, c.fixed_work.as_ref()?)));
    let works: Vec<_> = works.collect();
    let Some((_, first)) = works.first() else {
        return;
    };
    let what = facts::work(first.work_steps, first.kernel, first.array);
    screen.line(
        Style::Heading,
        &format!("THE SAME WORK again and again: {what}"),
    );
    let rows: Vec<Vec<String>> = works.iter().map(|(cpu, f)| work(cpu, f)).collect();
    let header = [
        "CPU",
        "slower",
        "(95 %)",
        "at best",
        "median",
        "p99",
        "longest",
        "slow level",
        "quanta",
    ];
    screen.table(&header, &rows);
    // Several starts say more than one.
    let one = works.iter().filter(|(cpu, _)| cpu.starts.is_none());
    for (cpu, found) in one {
        match found.warm_up.settled_after {
            Some(Nanos::ZERO) => {}
            _ => {
                let text = format!(
                    "CPU {}: warm-up {}",
                    cpu.cpu,
                    facts::warm_up(&found.warm_up)
                );
                screen.wrap(Style::Plain, "  ", &text);
            }
        }
    }
    screen.wrap(
        Style::Quiet,
        "  ",
        &format!(
            "the same work on another machine: idlewave measure fwq{} --work {}",
            first.kernel.options(first.array),
            first.work_steps
        ),
    );
}

/// Under which conditions the CPUs were measured, and what comes from them alone.
pub(super) fn conditions(screen: &mut Screen, findings: &Findings) {
    if let Some(said) = facts::conditions(&findings.conditions) {
        screen.wrap(Style::Plain, "  ", &format!("measured: {said}"));
    }
    let reserved = findings
        .cpus
        .iter()
        .filter_map(|c| Some((c.cpu, c.reserved.as_ref()?)));
    for (cpu, found) in reserved {
        let said = facts::reserved(cpu, found, &findings.conditions);
        screen.wrap(Style::Plain, "  ", &said);
    }
}

/// How much work fitted into equal times.
fn in_fixed_times(screen: &mut Screen, cpus: &[CpuNoise]) {
    let all = cpus
        .iter()
        .filter_map(|c| Some((c.cpu, c.fixed_time.as_ref()?)));
    let all: Vec<(Cpu, &FixedTimeFindings)> = all.collect();
    let Some((_, first)) = all.first() else {
        return;
    };
    let unit = facts::work(first.work_steps, first.kernel, first.array);
    screen.line(
        Style::Heading,
        &format!("WORK IN EQUAL TIMES of {}: units of {unit}", first.interval),
    );
    let rows: Vec<Vec<String>> = all.iter().map(|(cpu, f)| fixed_time(*cpu, f)).collect();
    let header = [
        "CPU",
        "work lost",
        "(95 %)",
        "units",
        "at best",
        "most lost",
        "period",
        "overrun",
        "quanta",
    ];
    screen.table(&header, &rows);
    screen.wrap(
        Style::Quiet,
        "  ",
        &format!(
            "the same on another machine: idlewave measure ftq{} --work {} --every {}",
            first.kernel.options(first.array),
            first.work_steps,
            first.interval.to_string().replace(' ', "")
        ),
    );
}

fn fixed_time(cpu: Cpu, found: &FixedTimeFindings) -> Vec<String> {
    let lost = &found.lost;
    vec![
        cpu.to_string(),
        percent(lost.value),
        percent_range(lost.low, lost.high),
        count(found.median),
        count_f64(found.reference),
        found.largest.to_string(),
        found
            .periods
            .first()
            .map_or_else(|| "-".to_owned(), |p| show::time(p.period.value)),
        count(found.overrun),
        count(found.count),
    ]
}

/// How noise depends on the load.
pub(super) fn load_sweep(screen: &mut Screen, sweep: &LoadSweep) {
    screen.line(
        Style::Heading,
        "NOISE AND LOAD (stolen, rate: of each busy CPU; the rest are medians)",
    );
    let dash = || "-".to_owned();
    let row = |point: &LoadPoint| {
        let LoadPoint { stolen, .. } = point;
        vec![
            point.busy.to_string(),
            percent(stolen.value),
            percent_range(stolen.low, stolen.high),
            format!("{}/s", count_f64(point.rate.value)),
            point
                .length
                .as_ref()
                .map_or_else(dash, |l| show::time(l.value)),
            point
                .tick
                .as_ref()
                .map_or_else(dash, |t| show::time(t.value)),
            point
                .work
                .as_ref()
                .map_or_else(dash, |w| show::time(w.value)),
        ]
    };
    let rows: Vec<Vec<String>> = sweep.points.iter().map(row).collect();
    let [tick, work] = ["tick", "work"].map(|what| format!("{what}, CPU {}", sweep.first));
    let header = [
        "busy CPUs",
        "stolen",
        "(95 %)",
        "rate",
        "length",
        &tick,
        &work,
    ];
    screen.table(&header, &rows);
    for text in facts::load_sentences(sweep) {
        screen.wrap(Style::Plain, "  ", &text);
    }
}

/// What several starts have in common.
pub(super) fn starts(screen: &mut Screen, cpus: &[CpuNoise]) {
    let all = cpus
        .iter()
        .filter_map(|c| Some((c.cpu, c.starts.as_ref()?)));
    let all: Vec<(Cpu, &Repeated)> = all.collect();
    let Some((_, first)) = all.first() else {
        return;
    };
    screen.line(
        Style::Heading,
        &format!("WARM-UP in {} starts after idleness", first.starts),
    );
    let rows: Vec<Vec<String>> = all.iter().map(|(cpu, found)| start(*cpu, found)).collect();
    let header = [
        "CPU",
        "first 5 ms slower",
        "(95 %)",
        "settled after",
        "(95 %)",
        "with a warm-up",
    ];
    screen.table(&header, &rows);
    for (cpu, found) in &all {
        screen.wrap(Style::Plain, "  ", &facts::warm_up_sentence(*cpu, found));
    }
}

fn start(cpu: Cpu, found: &Repeated) -> Vec<String> {
    let (slower, after) = (&found.slower, &found.settled_after);
    vec![
        cpu.to_string(),
        percent(slower.value),
        percent_range(slower.low, slower.high),
        show::time(after.value),
        format!("{} to {}", show::time(after.low), show::time(after.high)),
        format!("{} of {}", found.settled, found.starts),
    ]
}

fn detours(noise: &CpuNoise, found: &DetourFindings) -> Vec<String> {
    let Estimate {
        value, low, high, ..
    } = found.stolen;
    let mut row = vec![noise.cpu.to_string(), percent(value)];
    row.push(percent_range(low, high));
    row.push(format!("{}/s", count_f64(found.rate.value)));
    row.push(facts::or_none(found.largest));
    row.extend(RATES_FROM.map(|from| {
        let longer = found.classes.iter().filter(|c| c.from >= from);
        match longer.clone().map(|c| c.count).sum() {
            0_u64 => "none".to_owned(),
            _ => format!("{}/s", count_f64(longer.map(|c| c.per_second).sum())),
        }
    }));
    row
}

fn work(noise: &CpuNoise, found: &FixedWorkFindings) -> Vec<String> {
    let slower = &found.slowdown;
    vec![
        noise.cpu.to_string(),
        facts::slowdown(slower),
        show::slowdown_range(slower.value, slower.low, slower.high),
        found.reference.to_string(),
        found.median.to_string(),
        found.p99.to_string(),
        found.max.to_string(),
        percent(found.slowdown_by_level),
        count(found.count),
    ]
}
