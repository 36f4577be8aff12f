//! The summary's parts on the machine and on the recording.

use crate::facts;
use crate::number::plain;
use crate::screen::{Screen, Style};
use crate::story;
use idlewave_explain::views::Losses;
use idlewave_run::findings::{CpuNoise, Findings};
use idlewave_run::{Loss, Manifest, TraceMode, Unavailable};
use idlewave_units::show::{self, count, count_f64, percent};
use idlewave_units::{counted, named};

/// Most CPUs shown individually; of more, only the noisiest.
const CPUS_SHOWN: usize = 5;
/// Most losses and missing things shown; the rest is counted.
const ENTRIES_SHOWN: usize = 3;

/// Most nodes shown individually; the rest is counted.
const NODES_SHOWN: usize = 3;

/// Most sentences about busy nodes; the rest is counted.
const BUSY_SHOWN: usize = 5;

/// Host, kernel and clock of the nodes.
pub(super) fn host(screen: &mut Screen, manifest: &Manifest) {
    for node in manifest.nodes.iter().take(NODES_SHOWN) {
        let host = &node.host;
        let cpus = match host.online.len() {
            // Another tool recorded the run and left this out.
            0 => "CPUs not known".to_owned(),
            online => format!("{} of {}", host.allowed.len(), counted(online, "CPU")),
        };
        let mut line = format!("{}: {cpus}", plain(&host.name));
        if let Some(model) = &host.cpu_model {
            line.push_str(&format!(", {}", plain(model)));
        }
        // Imported reports of AIX name their system themselves.
        let system = match host.kernel.starts_with("AIX") {
            true => "",
            false => "Linux ",
        };
        line.push_str(&format!(", {system}{}", plain(&host.kernel)));
        screen.line(Style::Heading, &line);
        let mut settings = Vec::new();
        settings.extend(
            host.hypervisor
                .as_ref()
                .map(|h| format!("guest of {}", plain(h))),
        );
        settings.extend(host.hz.map(|hz| format!("HZ {hz}")));
        settings.extend(
            host.preemption
                .as_ref()
                .map(|p| format!("preemption {}", plain(p))),
        );
        settings.extend(
            host.governor
                .as_ref()
                .map(|g| format!("governor {}", plain(g))),
        );
        settings.extend(
            host.smt
                .map(|on| format!("SMT {}", if on { "on" } else { "off" })),
        );
        settings.extend(
            host.cgroup_quota
                .map(|q| format!("CPU quota {} per {}", q.quota, q.period)),
        );
        // The clock of another tool was not measured.
        let error = match story::is_imported(manifest) {
            true => String::new(),
            false => format!(", error {}", node.clock.error),
        };
        settings.push(format!(
            "clock {} (quantum {}{error})",
            plain(&node.clock.counter),
            show::time(node.clock.quantum_ns),
        ));
        settings.extend(
            node.alignment
                .as_ref()
                .map(|a| format!("its times corrected to node 0, error {} at most", a.error)),
        );
        if manifest.is_not_traced(node.node) {
            settings.push("kernel not traced".to_owned());
        }
        screen.wrap(Style::Plain, "  ", &settings.join(", "));
    }
    let rest = manifest.nodes.get(NODES_SHOWN..).unwrap_or_default();
    if !rest.is_empty() {
        let error = rest
            .iter()
            .filter_map(|n| n.alignment.as_ref())
            .map(|a| a.error)
            .max();
        let error = error.map_or_else(String::new, |e| format!(", clock error {e} at most"));
        screen.line(
            Style::Heading,
            &format!("and {} more nodes{error}", rest.len()),
        );
    }
}

/// What others used of the machine; an alarm for every node of which that was much.
pub(super) fn contamination(screen: &mut Screen, manifest: &Manifest, findings: &Findings) {
    let busy = findings.busy_nodes(manifest);
    if busy.is_empty() {
        let shares = findings.contamination.shares();
        screen.wrap(Style::Plain, "  ", &shares.concat());
    }
    alarms(screen, &busy);
}

/// These sentences about busy nodes, as alarms.
pub(crate) fn alarms(screen: &mut Screen, busy: &[String]) {
    for said in busy.iter().take(BUSY_SHOWN) {
        screen.wrap(Style::Alarm, "! ", &plain(said));
    }
    if busy.len() > BUSY_SHOWN {
        let more = counted(busy.len() - BUSY_SHOWN, "more node");
        screen.line(Style::Alarm, &format!("! other programs kept {more} busy"));
    }
}

/// The detour loop and the fixed work quantum of every CPU; of many, the noisiest first.
pub(super) fn noise(screen: &mut Screen, cpus: &[CpuNoise]) {
    screen.line(Style::Heading, "NOISE OF EVERY CPU");
    if cpus.is_empty() {
        screen.line(Style::Plain, "  not measured");
        return;
    }
    let stolen = |c: &CpuNoise| c.detours.as_ref().map(|d| d.stolen.value);
    let mut order: Vec<&CpuNoise> = cpus.iter().collect();
    order.sort_by_key(|c| c.cpu);
    if cpus.len() > CPUS_SHOWN {
        order.sort_by(|a, b| {
            stolen(b)
                .unwrap_or(-1.0)
                .total_cmp(&stolen(a).unwrap_or(-1.0))
        });
    }
    let shown = if cpus.len() > CPUS_SHOWN {
        CPUS_SHOWN - 1
    } else {
        cpus.len()
    };
    let (first, rest) = order.split_at(shown);
    let rows: Vec<Vec<String>> = first.iter().map(|c| noise_row(c)).collect();
    screen.table(
        &[
            "CPU",
            "stolen",
            "detours/s",
            "largest",
            "work slower",
            "slow level",
            "warm-up",
        ],
        &rows,
    );
    let mut values: Vec<f64> = rest.iter().filter_map(|c| stolen(c)).collect();
    values.sort_by(f64::total_cmp);
    if let (false, Some(last)) = (rest.is_empty(), values.last()) {
        let text = format!(
            "{} more CPUs: stolen {} (median), {} at most",
            rest.len(),
            percent(values[values.len() / 2]),
            percent(*last)
        );
        screen.line(Style::Plain, &format!("  {text}"));
    } else if !rest.is_empty() {
        screen.line(
            Style::Plain,
            &format!("  {} more CPUs: detours not measured", rest.len()),
        );
    }
}

fn noise_row(noise: &CpuNoise) -> Vec<String> {
    let dash = || "-".to_owned();
    let mut row = vec![noise.cpu.to_string()];
    match &noise.detours {
        None => row.extend([dash(), dash(), dash()]),
        Some(d) => row.extend([
            percent(d.stolen.value),
            count_f64(d.rate.value),
            facts::or_none(d.largest),
        ]),
    }
    match &noise.fixed_work {
        None => row.extend([dash(), dash(), dash()]),
        Some(f) => row.extend([
            facts::slowdown(&f.slowdown),
            percent(f.slowdown_by_level),
            facts::warm_up(&f.warm_up),
        ]),
    }
    row
}

/// What could not be recorded, and the command that would allow it.
pub(super) fn missing(screen: &mut Screen, findings: &Findings) {
    let missing = &findings.trace.unavailable;
    if missing.is_empty() {
        return;
    }
    unavailable(screen, &missing[..missing.len().min(ENTRIES_SHOWN)]);
    rest(screen, missing.len());
    let counted = matches!(
        findings.trace.mode,
        TraceMode::Counters | TraceMode::PerfSwitch
    );
    if counted {
        screen.wrap(
            Style::Plain,
            "  ",
            "what the counters of /proc say instead, coarsely: idlewave explain RUN --view processes, \
             or --view interrupts",
        );
    }
}

/// What could not be recorded. A command that allows several is shown once.
pub(crate) fn unavailable(screen: &mut Screen, missing: &[Unavailable]) {
    screen.line(Style::Heading, "NOT RECORDED");
    let mut shown_commands: Vec<&str> = Vec::new();
    for entry in missing {
        screen.wrap(
            Style::Plain,
            "  ",
            &format!("{} ({})", plain(&entry.what), plain(&entry.why)),
        );
        if let Some(allow) = entry
            .allow
            .as_deref()
            .filter(|a| !shown_commands.contains(a))
        {
            shown_commands.push(allow);
            screen.command(4, &plain(allow));
        }
    }
}

/// The loss ledger, largest entries first.
pub(super) fn losses(screen: &mut Screen, manifest: &Manifest, findings: &Findings) {
    let entries = Losses::of(manifest, findings).losses;
    if entries.is_empty() {
        return;
    }
    screen.line(Style::Heading, "LOST OR UNCERTAIN");
    for entry in entries.iter().take(ENTRIES_SHOWN) {
        loss(screen, entry);
    }
    rest(screen, entries.len());
}

/// An entry of the ledger.
pub(crate) fn loss(screen: &mut Screen, loss: &Loss) {
    let text = format!(
        "{} ({}): {}",
        plain(&loss.what),
        count(loss.count),
        plain(&loss.consequence)
    );
    screen.wrap(Style::Plain, "  ", &text);
}

fn rest(screen: &mut Screen, entries: usize) {
    if entries > ENTRIES_SHOWN {
        let text = format!(
            "  and {} more: idlewave explain RUN --view losses",
            entries - ENTRIES_SHOWN
        );
        screen.line(Style::Quiet, &text);
    }
}

/// What recording cost.
pub(super) fn cost(screen: &mut Screen, manifest: &Manifest, findings: &Findings) {
    let cost = &findings.trace.cost;
    let mode = mode_name(manifest, findings.trace.mode);
    let program_trace = story::program_trace(manifest);
    let text = match (findings.trace.mode, cost.share()) {
        _ if program_trace.is_some() => format!(
            "trace: imported from {}; what recording it cost is not known",
            program_trace.unwrap_or_default()
        ),
        (TraceMode::Off, _) => "kernel trace: switched off".to_owned(),
        (_, None) if story::is_imported(manifest) => format!(
            "kernel trace: {mode}, {} {}, {} lost; what recording it cost is not known",
            count(cost.events),
            named(cost.events, "event"),
            count(cost.lost),
        ),
        (_, None) => format!("kernel trace: {mode}; its cost was not measured"),
        (_, Some(share)) => format!(
            "kernel trace: {mode}, {} {}, {} lost, cost {} of {} (reader {}, {} per event)",
            count(cost.events),
            named(cost.events, "event"),
            count(cost.lost),
            percent(share),
            counted(cost.cpus, "CPU"),
            cost.reader,
            cost.event_ns.map_or_else(|| "-".to_owned(), show::time),
        ),
    };
    screen.wrap(Style::Quiet, "", &text);
}

/// How the kernel's view was recorded, in words.
pub(crate) fn mode_name(manifest: &Manifest, mode: TraceMode) -> &'static str {
    match mode {
        TraceMode::Tracefs if story::is_imported(manifest) => "imported",
        TraceMode::Tracefs => "own tracefs instance",
        TraceMode::PerfSwitch => "perf, own context switches only",
        TraceMode::Counters => "counters of /proc only",
        TraceMode::Off => "switched off",
    }
}
