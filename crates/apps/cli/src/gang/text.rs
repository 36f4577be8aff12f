//! The service's status as text (80 columns).

use idlewave_gang_agent::Copying;
use idlewave_gang_agent::control::{GangStatus, Quantiles, RowStatus, Stage, Status, SwitchStatus};
use idlewave_units::counted;
use idlewave_units::foreign::column;
use idlewave_units::show::percent;
use idlewave_units::{Bytes, Nanos};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Columns available for a row's slots; further slots are only counted.
const DRAWN: usize = 56;
/// The widest bar of the histogram.
const BAR: u64 = 40;

/// The list of gangs.
pub fn gangs(status: &Status) -> String {
    if status.gangs.is_empty() {
        return "no gangs; to start one: idlewave gang submit -- mpirun -n 2 ./app\n".to_owned();
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
            gang.turns.to_string(),
            gang.cpu.to_string(),
            column(&gang.name, 22)
        );
        for line in &gang.waits {
            let _ = writeln!(text, "       {}", column(line, 72));
        }
        if let Some(trouble) = &gang.trouble {
            let _ = writeln!(text, "       {}", column(trouble, 72));
        }
    }
    text
}

fn state(gang: &GangStatus) -> &'static str {
    match gang.stage {
        _ if gang.ending => "ending",
        Stage::Waiting => "no ranks",
        Stage::Starting | Stage::Running if gang.is_deadlocked() => "deadlocked",
        Stage::Starting => "starting",
        Stage::Running if gang.idle => "idle",
        Stage::Running => "switched",
        Stage::Ended => "ended",
    }
}

fn ranks(gang: &GangStatus) -> String {
    match gang.size {
        Some(size) if size == gang.ranks => size.to_string(),
        Some(size) => format!("{} of {size}", gang.ranks),
        None if gang.ranks == 0 => format!("{} proc", gang.processes),
        None => gang.ranks.to_string(),
    }
}

/// The complete status.
pub fn status(status: &Status) -> String {
    let mut text = String::new();
    let doing = match (status.draining, status.running) {
        (true, None) => "drained: everything runs".to_owned(),
        (true, Some(row)) => format!("drained, gangs with contexts take turns: row {row}"),
        (false, None) if status.rows.is_empty() => "no gang to switch: everything runs".to_owned(),
        (false, None) => "everything runs".to_owned(),
        (false, Some(row)) => format!("row {row} has the CPUs"),
    };
    let _ = writeln!(text, "GANG SWITCHING, up {}: {doing}", status.age);
    let overhead = percent(status.overhead);
    let _ = match status.slice_for {
        Some(cost) => {
            let part = percent(cost.as_f64() / status.slice.as_f64().max(1.0));
            writeln!(
                text,
                "  slice {}; switches take {cost} (p90), {part} of it; the limit is {overhead}",
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
            Copying::Valid => "only the parts in use are copied",
            Copying::Pointer => "switched by a pointer",
        };
        let _ = writeln!(text, "  network contexts of {}, {how}", sizes.join(", "));
    }
    text.push_str("\nNODES\n");
    if status.nodes.is_empty() {
        text.push_str("  no agent has connected yet\n");
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
            column(&node.host, 24),
            node.cpus,
            column(&node.freezer, 10)
        );
        for limit in &node.limits {
            let _ = writeln!(text, "        {}", column(limit, 72));
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
    text.push_str("\nMATRIX (a column per CPU, * has the CPUs now, (n) also runs in that row)\n");
    for row in &status.rows {
        let mark = if status.running == Some(row.row) {
            '*'
        } else {
            ' '
        };
        let _ = writeln!(text, " {mark}{:>4}  {}", row.row, cells(row));
    }
}

/// One row of the matrix: gang numbers by slot, all of the same width, alternates in brackets.
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
        "\nSWITCHES: {} carried out, {} aborted, {} missing",
        switches.switched,
        switches.aborted.iter().map(|(_, n)| n).sum::<u64>(),
        counted(switches.missing, "node")
    );
    for (why, n) in &switches.aborted {
        let _ = writeln!(
            text,
            "  aborted {n}: {}",
            column(why, 56),
            n = counted(*n, "time")
        );
    }
    let (Some(cost), Some(skew)) = (&switches.cost, &switches.skew) else {
        text.push_str("  their cost was not measured yet\n");
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
        // Some phases occur only in switches that involve the network.
        let of = match quantiles.n == cost.n {
            true => String::new(),
            false => format!(" (of {})", quantiles.n),
        };
        line(&format!("  {}{of}", column(name, 20)), quantiles);
    }
    line("skew of thaw", skew);
    histogram(text, &switches.histogram);
}

/// A histogram of switch times by octaves.
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
