//! Shows the result of a simulated schedule, as text and as JSON.

use super::played::{Disturbed, Played};
use crate::files::name;
use idlewave_simulate::goal::{Outcome, Parameters, PerByte};
use idlewave_units::Nanos;
use idlewave_units::counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// What the numbers do not cover.
const NOT_MODELLED: [&str; 4] = [
    "noise",
    "contention between messages on the links of a network",
    "the collectives of an MPI library: a schedule has single messages",
    "the handshake of a rendezvous",
];

impl Disturbed {
    /// What the numbers do not cover.
    fn not_modelled(&self) -> &'static [&'static str] {
        match self.quiet_ns {
            Some(_) => &NOT_MODELLED[1..],
            None => &NOT_MODELLED,
        }
    }
}

pub(super) fn value(
    played: &Played,
    parameters: &Parameters,
    outcome: &Outcome,
    disturbed: &Disturbed,
) -> Value {
    let number = |per_byte: PerByte| per_byte.to_string().parse::<f64>().ok();
    // Dependencies of a program are not counted: it never holds all of them at once.
    let (dependencies, set) = match played {
        Played::Schedule(schedule) => (Some(schedule.dependencies()), None),
        Played::Program(program) => {
            let set = program.parameters().iter().cloned();
            (None, Some(set.collect::<BTreeMap<String, i64>>()))
        }
    };
    json!({
        "schedule": {
            "ranks": played.ranks(),
            "operations": outcome.operations,
            "dependencies": dependencies,
            "program_parameters": set,
            "messages": outcome.messages,
            "message_bytes": outcome.bytes,
        },
        "parameters": {
            "latency_ns": parameters.latency.get(),
            "overhead_ns": parameters.overhead.get(),
            "gap_ns": parameters.gap.get(),
            "gap_per_byte_ns": number(parameters.gap_per_byte),
            "overhead_per_byte_ns": number(parameters.overhead_per_byte),
            "rendezvous_bytes": parameters.rendezvous.get(),
        },
        "makespan_ns": outcome.makespan_ns(),
        "finish_ns": outcome.finish_ns,
        "noise": disturbed.quiet_ns.map(|quiet| json!({
            "sources": disturbed.sources,
            "seed": disturbed.seed,
            "undisturbed_makespan_ns": quiet,
        })),
        "not_modelled": disturbed.not_modelled(),
    })
}

/// The number of ranks that are listed.
const SLOWEST: usize = 8;

pub(super) fn summary(
    file: &Path,
    played: &Played,
    parameters: &Parameters,
    outcome: &Outcome,
    disturbed: &Disturbed,
) -> String {
    let makespan = outcome.makespan_ns();
    let slowest = outcome.slowest(SLOWEST);
    let bytes = outcome
        .bytes
        .map_or("over 2^64 bytes".to_owned(), |bytes| counted(bytes, "byte"));
    let last = slowest.first().map_or(0, |&(rank, _)| rank);
    let (mut out, dependencies) = match played {
        Played::Schedule(schedule) => (
            format!("GOAL schedule {}\n", name(file)),
            format!(", with {} dependencies", schedule.dependencies()),
        ),
        Played::Program(program) => {
            let mut out = format!("Program {}\n", name(file));
            for (name, value) in program.parameters() {
                let _ = writeln!(out, "  {name:<13} {value}");
            }
            (out, String::new())
        }
    };
    let without_noise = disturbed.quiet_ns.map_or(String::new(), |quiet| {
        format!(
            "without noise   {} ({quiet} ns); sources of noise: {}, seed {}\n",
            Nanos::from_nanos(quiet),
            disturbed.sources.len(),
            disturbed.seed
        )
    });
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "  ranks         {}\n  operations    {}{dependencies}\n  messages      {}, {bytes}\n\n\
         makespan        {} ({makespan} ns), set by rank {last}\n{without_noise}\n\
         SLOWEST RANKS\n  {:>10} {:>24} {:>30}\n",
        played.ranks(),
        outcome.operations,
        outcome.messages,
        Nanos::from_nanos(makespan),
        "rank",
        "finish in ns",
        "before the last in ns",
    );
    for &(rank, finish) in &slowest {
        let _ = writeln!(out, "  {rank:>10} {finish:>24} {:>30}", makespan - finish);
    }
    let more = outcome.finish_ns.len() - slowest.len();
    if more > 0 {
        let _ = writeln!(out, "  and {more} more; --json has all");
    }
    let _ = write!(
        out,
        "\nPARAMETERS\n  {:<20} {} ns\n  {:<20} {} ns\n  {:<20} {} ns\n  {:<20} {} ns\n  {:<20} {} ns\n  {:<20} {}\n\
         \nNOT MODELLED\n",
        "latency L",
        parameters.latency.get(),
        "overhead o",
        parameters.overhead.get(),
        "gap g",
        parameters.gap.get(),
        "gap per byte G",
        parameters.gap_per_byte,
        "overhead per byte O",
        parameters.overhead_per_byte,
        "rendezvous above S",
        counted(parameters.rendezvous.get(), "byte"),
    );
    for what in disturbed.not_modelled() {
        let _ = writeln!(out, "  {what}");
    }
    out.push_str(
        "\nNEXT\n  To see what a faster network would bring, give its --latency, --overhead,\n  \
         --gap and --gap-per-byte (0.04 ns per byte is 25 GB/s).\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_simulate::goal::{self, Schedule};

    #[test]
    fn the_summary_fits_eighty_columns_whatever_the_numbers_are() {
        let text = "num_ranks 1\nrank 0 {\ncalc 18446744073709551615\n}\n";
        let schedule: Schedule = text.parse().unwrap();
        let mut parameters = Parameters::default();
        let mut outcome = goal::simulate(&schedule, &parameters).unwrap();
        let schedule = Played::Schedule(schedule);
        outcome.operations = u64::MAX;
        outcome.messages = u64::MAX;
        outcome.bytes = Some(u64::MAX);
        outcome.finish_ns = vec![u64::MAX; 20];
        parameters.gap_per_byte = "0.123456789012345678".parse().unwrap();
        let text = summary(
            Path::new("x.goal"),
            &schedule,
            &parameters,
            &outcome,
            &Disturbed::default(),
        );
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(text.contains("and 12 more"), "{text}");
    }
}
