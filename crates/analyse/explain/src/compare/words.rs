//! Comparisons in words.

use super::comparison::Comparison;
use super::row::Row;
use super::sources::{SourceChange, SourceVerdict};
use idlewave_run::{Manifest, PhaseKind};
use idlewave_units::show::{digits, percent};
use idlewave_units::{counted, grouped};

/// What came out, in a sentence.
pub fn conclusion(found: &Comparison) -> String {
    let (differing, all) = found.differing();
    let of = counted(all as u64, "comparison");
    if differing == 0 {
        return format!("no significant difference between A and B in {of}");
    }
    // Quantities are in the order in which they matter, and all CPUs come before the single ones.
    let rows = found.rows.iter().filter(|row| row.verdict.differs());
    let first = rows.min_by_key(|row| row.quantity).map(of_row);
    let of_sources = || found.sources.first().map(of_source);
    let first = first.or_else(of_sources).unwrap_or_default();
    format!(
        "{first}; {} of {of} differ significantly",
        grouped(differing as u64)
    )
}

fn of_row(row: &Row) -> String {
    let what = format!("{} of {}", row.quantity.label(), row.subject);
    format!(
        "B against A, {what}: {}, by {}, from {} to {}",
        row.quantity.verdict(row.verdict),
        row.shift_text(),
        row.quantity.show(row.a.median),
        row.quantity.show(row.b.median)
    )
}

fn of_source(source: &SourceChange) -> String {
    let what = match source.verdict {
        SourceVerdict::Appeared => "appeared",
        SourceVerdict::Grew => "grew",
        SourceVerdict::Shrank => "shrank",
        SourceVerdict::Vanished => "vanished",
        SourceVerdict::NotSignificant => "did not change",
    };
    let (from, to, unit) = match source.decided_by_rate() {
        true => {
            let [from, to] = [&source.a, &source.b].map(|side| digits(side.rate.value));
            (from, to, "strikes per second")
        }
        false => {
            let [from, to] = [&source.a, &source.b].map(|side| percent(side.stolen.value));
            (from, to, "of the time")
        }
    };
    format!(
        "source {} {what} in B, from {from} to {to} {unit}",
        source.name
    )
}

/// What a run consists of.
pub fn parts(manifest: &Manifest) -> String {
    let mut parts: Vec<String> = Vec::new();
    for phase in &manifest.phases {
        let part = match &phase.kind {
            PhaseKind::Detour { .. } => "detours of CPUs".to_owned(),
            PhaseKind::FixedWork { .. } => "fixed work of CPUs".to_owned(),
            PhaseKind::FixedTime { .. } => "fixed time of CPUs".to_owned(),
            PhaseKind::Lockstep {
                coupling, ranks, ..
            } => {
                let all = manifest.ranks.len() as u32;
                format!("{} of {} ranks", coupling.name(), ranks.unwrap_or(all))
            }
            PhaseKind::MolecularDynamics { .. } => {
                format!("molecular dynamics of {} ranks", manifest.ranks.len())
            }
            PhaseKind::Benchmark(sheet) => {
                format!("{} of {} ranks", sheet.benchmark, sheet.ranks.len())
            }
            PhaseKind::PingPong { .. } => "ping-pong".to_owned(),
            PhaseKind::Scaling(sheet) => format!("scaling of {}", sheet.program),
            PhaseKind::Recorded { .. } => "a recorded program".to_owned(),
        };
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    match parts.is_empty() {
        true => "nothing".to_owned(),
        false => parts.join(", "),
    }
}
