//! `idlewave measure list`: all measurements, with their options and an example.

use idlewave_measure::npb::Program;
use std::fmt::Write;

/// What is measured, its options, an example.
type Row = (&'static str, &'static str, &'static str);

const STEP: &str = "--work 20us, --bytes N, --scaling strong|weak";
const OF_RANKS: &[Row] = &[
    (
        "exchange",
        "--work 20us, --bytes 1024, --dims 1, --wait nonblocking",
        "exchange --dims 2 --ranks 4",
    ),
    (
        "barrier",
        "--work 20us, --scaling strong|weak",
        "barrier --work 100us",
    ),
    ("allreduce", STEP, "allreduce --scaling weak"),
    ("reduce", STEP, "reduce --bytes 64"),
    ("alltoall", STEP, "alltoall --bytes 4096"),
    (
        "pingpong",
        "--pairs 1, --bytes 4194304",
        "pingpong --ranks 2",
    ),
    (
        "md",
        "--particles 4000, --steps N, --scaling strong|weak",
        "md --particles 32000 -o fluid",
    ),
    (
        "halo",
        "--cells 64, --steps 100, --dims 3, --scaling strong|weak",
        "halo --cells 64x32x16",
    ),
];
const OF_CPUS: &[Row] = &[
    (
        "detour",
        "--load KIND, --one-at-a-time",
        "detour -o detours",
    ),
    (
        "fwq",
        "--work, --runs N, --kernel fibonacci",
        "fwq --kernel stream",
    ),
    (
        "ftq",
        "--every 100us, --kernel fibonacci",
        "ftq --every 1ms",
    ),
    ("warmup", "--idle 2s, --starts 10", "warmup"),
    ("load-sweep", "--kernel fibonacci", "load-sweep -o sweep"),
    ("smt", "--work 20us", "smt"),
];

/// The text.
pub fn text() -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = write(&mut out);
    out
}

fn write(out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "Between ranks, threads of this process or those that a launcher started:\n"
    )?;
    rows(out, OF_RANKS)?;
    writeln!(
        out,
        "\nNAS Parallel Benchmarks (--class S, W, A, B, C or D; --scaling strong):\n"
    )?;
    for program in Program::ALL {
        let name = program.name();
        writeln!(out, "  npb {name:<7} {}", program.about())?;
        writeln!(
            out,
            "{:14}idlewave measure npb {name} --class A --ranks 4",
            ""
        )?;
    }
    writeln!(
        out,
        "  npb is      integer sort, also `measure is`; no class D"
    )?;
    writeln!(out, "{:14}idlewave measure npb is --class A --ranks 4", "")?;
    writeln!(out, "  npb all     all of them, one after the other")?;
    writeln!(out, "{:14}idlewave measure npb all --class S", "")?;
    writeln!(out, "\nThe CPUs of this node:\n")?;
    rows(out, OF_CPUS)?;
    writeln!(out, "\nTimes that another program wrote:\n")?;
    rows(
        out,
        &[(
            "step",
            "FILE [FILE], --unit, --region",
            "step docs/examples/smt-off.csv",
        )],
    )?;
    writeln!(
        out,
        "\nValues shown are the usual ones; -o RUN keeps a run. `measure NAME --help`\n\
         describes all options."
    )
}

fn rows(out: &mut String, rows: &[Row]) -> std::fmt::Result {
    for (name, options, example) in rows {
        writeln!(out, "  {name:<11} {options}")?;
        writeln!(out, "{:14}idlewave measure {example}", "")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::MeasureArgs;
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    #[test]
    fn every_measurement_is_listed_and_every_example_is_a_command_line() {
        let text = text();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let command = MeasureArgs::augment_args(Command::new("measure"));
        for known in command.get_subcommands() {
            let name = known.get_name();
            let line = format!("\n  {name} ");
            let own = ["list", "npb", "is"].contains(&name);
            assert!(own || text.contains(&line), "{name} is not listed");
        }
        let examples = text
            .lines()
            .filter_map(|l| l.trim().strip_prefix("idlewave "));
        let mut count = 0;
        for example in examples {
            let matches = command.clone().try_get_matches_from(example.split(' '));
            let matches = matches.unwrap_or_else(|error| panic!("{example}: {error}"));
            MeasureArgs::from_arg_matches(&matches).expect(example);
            count += 1;
        }
        assert_eq!(
            count,
            OF_RANKS.len() + OF_CPUS.len() + Program::ALL.len() + 3
        );
    }

    #[test]
    fn options_that_are_listed_exist() {
        let command = MeasureArgs::augment_args(Command::new("measure"));
        for (name, options, _) in OF_RANKS.iter().chain(OF_CPUS) {
            let known = command.find_subcommand(name).expect(name);
            for option in options.split(", ") {
                let mut words = option.split(' ');
                let long = words.next().unwrap_or_default().trim_start_matches("--");
                let found = known.get_arguments().find(|a| a.get_long() == Some(long));
                let found = found.unwrap_or_else(|| panic!("{name} has no --{long}"));
                let usual = found.get_default_values().first();
                if let (Some(given), Some(usual)) = (words.next(), usual) {
                    assert_eq!(given, usual.to_string_lossy(), "{name} --{long}");
                }
            }
        }
    }
}
