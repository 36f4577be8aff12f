//! What the service says, for people (80 columns) and for Prometheus.

use idlewave_agent::Copying;
use idlewave_agent::control::{
    GangStatus, Observation, Quantiles, RowStatus, Stage, Status, SwitchStatus,
};
use idlewave_units::{Bytes, Nanos};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Slots of a row that are drawn; more are counted.
const DRAWN: usize = 56;
/// Widest bar of the histogram.
const BAR: u64 = 40;

/// The list of gangs.
pub fn gangs(status: &Status) -> String {
    if status.gangs.is_empty() {
        return "no gangs; to bring one: idlewave gang submit -- mpirun -n 2 ./app\n".to_owned();
    }
    let mut text = format!(
        "{:>5}  {:<10} {:>7} {:>5} {:>4} {:>9} {:>9}  {}\n",
        "gang", "state", "ranks", "user", "row", "turns", "cpu", "command"
    );
    for gang in &status.gangs {
        let _ = writeln!(
            text,
            "{:>5}  {:<10} {:>7} {:>5} {:>4} {:>9} {:>9}  {}",
            gang.gang,
            state(gang),
            ranks(gang),
            gang.user,
            gang.row
                .map_or_else(|| "-".to_owned(), |row| row.to_string()),
            short(gang.turns),
            short(gang.cpu),
            cut(&gang.name, 22)
        );
        for line in &gang.waits {
            let _ = writeln!(text, "       {}", cut(line, 72));
        }
        if let Some(trouble) = &gang.trouble {
            let _ = writeln!(text, "       {}", cut(trouble, 72));
        }
    }
    text
}

fn state(gang: &GangStatus) -> &'static str {
    match gang.stage {
        _ if gang.ending => "ending",
        Stage::Waiting => "no ranks",
        Stage::Starting | Stage::Running if deadlocked(gang) => "deadlocked",
        Stage::Starting => "starting",
        Stage::Running if gang.idle => "idle",
        Stage::Running => "switched",
        Stage::Ended => "ended",
    }
}

fn deadlocked(gang: &GangStatus) -> bool {
    matches!(gang.observed, Some(Observation::Deadlocked { .. }))
}

fn ranks(gang: &GangStatus) -> String {
    match gang.size {
        Some(size) if size == gang.ranks => size.to_string(),
        Some(size) => format!("{} of {size}", gang.ranks),
        None if gang.ranks == 0 => format!("{} proc", gang.processes),
        None => gang.ranks.to_string(),
    }
}

/// Seconds and below, in few columns.
fn short(time: Nanos) -> String {
    match time.as_f64() / 1e9 {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.1} s"),
        s => format!("{:.0} ms", s * 1e3),
    }
}

fn cut(text: &str, columns: usize) -> String {
    let text = idlewave_units::foreign::one_line(text);
    if text.chars().count() <= columns {
        return text;
    }
    let kept: String = text.chars().take(columns.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Everything.
pub fn status(status: &Status) -> String {
    let mut text = String::new();
    let doing = match (status.draining, status.running) {
        (true, None) => "drained: everything runs".to_owned(),
        (true, Some(row)) => format!("drained, gangs with contexts take turns: row {row}"),
        (false, None) if status.rows.is_empty() => "no gang to switch: everything runs".to_owned(),
        (false, None) => "everything runs".to_owned(),
        (false, Some(row)) => format!("row {row} has the CPUs"),
    };
    let _ = writeln!(text, "GANG SWITCHING, up {}: {doing}", short(status.age));
    let overhead = status.overhead * 100.0;
    let _ = match status.slice_for {
        Some(cost) => {
            let part = 100.0 * cost.as_f64() / status.slice.as_f64().max(1.0);
            writeln!(
                text,
                "  slice {}; switches take {cost} (p90), {part:.2} % of it; {overhead:.2} % are wanted",
                status.slice
            )
        }
        None => writeln!(
            text,
            "  slice {}, until switches are measured",
            status.slice
        ),
    };
    let sizes = status.gangs.iter().filter_map(|gang| gang.context);
    let sizes: BTreeSet<Bytes> = sizes.map(Bytes::new).collect();
    if !sizes.is_empty() {
        let sizes: Vec<String> = sizes.iter().map(Bytes::to_string).collect();
        let how = match status.contexts {
            Copying::All => "copied out and in",
            Copying::Valid => "copied as far as they mean something",
            Copying::Pointer => "changed by a pointer",
        };
        let _ = writeln!(text, "  network contexts of {}, {how}", sizes.join(", "));
    }
    text.push_str("\nNODES\n");
    if status.nodes.is_empty() {
        text.push_str("  none has come yet\n");
    }
    for node in &status.nodes {
        let part = if node.coordinated {
            "in step"
        } else {
            "not in step"
        };
        let _ = writeln!(
            text,
            "  {:>4}  {:<24} {:>4} CPUs  {:<10} {part}",
            node.node.get(),
            cut(&node.host, 24),
            node.cpus,
            node.freezer
        );
        for limit in &node.limits {
            let _ = writeln!(text, "        {}", cut(limit, 72));
        }
    }
    matrix(&mut text, status);
    text.push_str("\nGANGS\n");
    for line in gangs(status).lines() {
        let _ = writeln!(text, "{line}");
    }
    switches(&mut text, &status.switches);
    text
}

fn matrix(text: &mut String, status: &Status) {
    if status.rows.is_empty() {
        return;
    }
    text.push_str(
        "\nMATRIX (a column per CPU, * has the CPUs now, (n) runs in that row as well)\n",
    );
    for row in &status.rows {
        let mark = if status.running == Some(row.row) {
            '*'
        } else {
            ' '
        };
        let _ = writeln!(text, " {mark}{:>4}  {}", row.row, cells(row));
    }
}

/// A gang's number in 1 or more columns per slot; alternates in brackets.
fn cells(row: &RowStatus) -> String {
    let widest = row
        .cells
        .iter()
        .flatten()
        .flatten()
        .map(|(gang, _)| gang.to_string().len());
    let width = widest.max().unwrap_or(1) + 2;
    let mut text = String::new();
    let (mut drawn, mut left) = (0, 0);
    for (i, node) in row.cells.iter().enumerate() {
        if i > 0 && drawn + width <= DRAWN {
            text.push('|');
            drawn += 1;
        }
        for cell in node {
            if drawn + width > DRAWN {
                left += 1;
                continue;
            }
            let word = match cell {
                Some((gang, true)) => format!(" {gang} "),
                Some((gang, false)) => format!("({gang})"),
                None => " . ".to_owned(),
            };
            let _ = write!(text, "{word:>width$}");
            drawn += width;
        }
    }
    if left > 0 {
        let _ = write!(text, " and {left} more");
    }
    text
}

fn switches(text: &mut String, switches: &SwitchStatus) {
    let _ = writeln!(
        text,
        "\nSWITCHES: {} carried out, {} aborted, {} nodes not heard of",
        switches.switched,
        switches.aborted.iter().map(|(_, n)| n).sum::<u64>(),
        switches.missing
    );
    for (why, n) in &switches.aborted {
        let _ = writeln!(text, "  aborted {n} times: {why}");
    }
    let (Some(cost), Some(skew)) = (&switches.cost, &switches.skew) else {
        text.push_str("  what they cost was not measured yet\n");
        return;
    };
    let _ = writeln!(
        text,
        "  {:<22} {:>10} {:>10} {:>10} {:>10}  (last {})",
        "", "median", "p90", "p99", "longest", cost.n
    );
    let mut line = |name: &str, q: &Quantiles| {
        let _ = writeln!(
            text,
            "  {name:<22} {:>10} {:>10} {:>10} {:>10}",
            q.median, q.p90, q.p99, q.longest
        );
    };
    line("whole switch", cost);
    for (name, quantiles) in &switches.phases {
        // Of those that had to do with the network.
        let of = match quantiles.n == cost.n {
            true => String::new(),
            false => format!(" (of {})", quantiles.n),
        };
        line(&format!("  {name}{of}"), quantiles);
    }
    line("skew of thaw", skew);
    histogram(text, &switches.histogram);
}

/// Octaves of the time of a switch.
fn histogram(text: &mut String, bins: &[(Nanos, u64)]) {
    let mut octaves: Vec<(u64, u64)> = Vec::new();
    for (upper, n) in bins {
        // Bins end at or below the octave's edge.
        let edge = upper.get().max(1).next_power_of_two();
        match octaves.last_mut() {
            Some((last, sum)) if *last == edge => *sum += n,
            _ => octaves.push((edge, *n)),
        }
    }
    let most = octaves.iter().map(|(_, n)| *n).max().unwrap_or(1).max(1);
    for (edge, n) in octaves {
        let bar = "#".repeat((n * BAR).div_ceil(most) as usize);
        let _ = writeln!(text, "  below {:>9} {n:>8} {bar}", Nanos::from_nanos(edge));
    }
}

/// Prometheus' text format, version 0.0.4.
pub fn metrics(status: &Status) -> String {
    let mut text = String::new();
    let mut one = |name: &str, kind: &str, help: &str, lines: Vec<(String, f64)>| {
        let _ = writeln!(
            text,
            "# HELP idlewave_gang_{name} {help}\n# TYPE idlewave_gang_{name} {kind}"
        );
        for (labels, value) in lines {
            let _ = writeln!(text, "idlewave_gang_{name}{labels} {value}");
        }
    };
    let plain = |value: f64| vec![(String::new(), value)];
    let seconds = |time: Nanos| time.as_f64() / 1e9;
    let s = &status.switches;
    one(
        "switches_total",
        "counter",
        "Switches carried out.",
        plain(s.switched as f64),
    );
    let aborted = s
        .aborted
        .iter()
        .map(|(why, n)| (format!("{{reason=\"{}\"}}", label(why)), *n as f64));
    one(
        "aborts_total",
        "counter",
        "Switches aborted, by reason.",
        aborted.collect(),
    );
    one(
        "missing_total",
        "counter",
        "Nodes that did not acknowledge a switch.",
        plain(s.missing as f64),
    );
    one(
        "slice_seconds",
        "gauge",
        "Length of a turn.",
        plain(seconds(status.slice)),
    );
    let nodes = status.nodes.iter().filter(|node| node.coordinated).count();
    one(
        "nodes",
        "gauge",
        "Nodes that take part in switches.",
        plain(nodes as f64),
    );
    let forged = status.nodes.iter().map(|node| {
        let label = format!("{{node=\"{}\"}}", node.node);
        (label, node.forged as f64)
    });
    one(
        "forged_frames_total",
        "counter",
        "Frames of network contexts that a node dropped, as nobody with their key made them.",
        forged.collect(),
    );
    one(
        "rows",
        "gauge",
        "Rows of the matrix.",
        plain(status.rows.len() as f64),
    );
    let of = |f: fn(&GangStatus) -> f64| {
        let gangs = status.gangs.iter();
        gangs
            .map(|g| {
                (
                    format!("{{gang=\"{}\",command=\"{}\"}}", g.gang, label(&g.name)),
                    f(g),
                )
            })
            .collect()
    };
    one(
        "turns_seconds_total",
        "counter",
        "Time for which a gang had the CPUs.",
        of(|g| g.turns.as_f64() / 1e9),
    );
    one(
        "cpu_seconds_total",
        "counter",
        "CPU time that a gang used.",
        of(|g| g.cpu.as_f64() / 1e9),
    );
    one(
        "idle",
        "gauge",
        "Whether a gang has no use for its turns.",
        of(|g| f64::from(u8::from(g.idle))),
    );
    one(
        "deadlocked",
        "gauge",
        "Whether ranks of a gang wait for each other for ever.",
        of(|g| f64::from(u8::from(deadlocked(g)))),
    );
    let phases = s.phases.iter().flat_map(|(name, q)| {
        let quantile = |of: &str, time: Nanos| {
            (
                format!("{{phase=\"{}\",quantile=\"{of}\"}}", label(name)),
                seconds(time),
            )
        };
        [
            quantile("0.5", q.median),
            quantile("0.9", q.p90),
            quantile("0.99", q.p99),
        ]
    });
    one(
        "phase_seconds",
        "gauge",
        "Quantiles of the phases of switches of late; drain and context are of gangs with network contexts.",
        phases.collect(),
    );
    let mut sum = 0;
    let mut buckets = Vec::new();
    for (upper, n) in &s.histogram {
        sum += n;
        buckets.push((format!("_bucket{{le=\"{}\"}}", seconds(*upper)), sum as f64));
    }
    buckets.push(("_bucket{le=\"+Inf\"}".to_owned(), sum as f64));
    buckets.push(("_sum".to_owned(), seconds(s.total)));
    buckets.push(("_count".to_owned(), sum as f64));
    one(
        "switch_seconds",
        "histogram",
        "Time of a switch in which nobody computes everywhere.",
        buckets,
    );
    text
}

/// A label's value: backslash, quote and line end escaped.
fn label(text: &str) -> String {
    let text = idlewave_units::foreign::one_line(text);
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
