//! Runs all cases repeatedly, in turn, so that drift affects them alike, and evaluates their times.

use crate::bench::{Bench, Seen, Trial};
use crate::case::{Case, Compares, Program, Table, Treatment, baselines};
use crate::contexts::Contexts;
use crate::error::TrialError;
use crate::keep::Kept;
use crate::skew::skew;
use crate::spread::Spread;
use crate::words::words;
use idlewave_gang_agent::control::SwitchStatus;
use idlewave_measure::{Counted, RankSteps};
use idlewave_run::findings::Estimate;
use idlewave_session::{Progress, Stop};
use idlewave_units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How often the cases of a study run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeats {
    /// All cases.
    pub all: u32,
    /// Cases whose overhead is not yet known to be over or under a share, with that share, and the
    /// most repeats.
    pub until: Option<(f64, u32)>,
}

/// The results of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case.
    pub case: Case,
    /// The compared time over its baseline in the same repeat; 1 means equally long.
    pub ratio: Spread,
    /// The compared time, in seconds.
    pub seconds: Spread,
    /// Skew of the ranks' first steps after a thaw, in ns, over all repeats: median with its
    /// interval, and the 0.99 quantile.
    pub skew: Option<(Estimate, Estimate)>,
    /// Last-level cache misses of the compared programs' ranks, over those of the same programs
    /// alone in the same repeat; `None`: not counted, see [`Study::not_counted`].
    pub cache_misses: Option<Spread>,
    /// Time in switches, over the time that is compared with: the part of the ratio above 1 that they
    /// explain. `None`: nothing was switched, or several times are compared.
    pub switching: Option<Spread>,
    /// CPU time of the ranks, over that of the same programs alone in the same repeat. `None`: not all
    /// programs are built in.
    pub cpu_time: Option<Spread>,
    /// What switches cost in the last repeat.
    pub switches: Option<SwitchStatus>,
    /// The trial of each repeat.
    pub trials: Vec<Trial>,
}

/// A table with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filled {
    /// The table.
    pub table: Table,
    /// One row per case.
    pub rows: Vec<Row>,
}

/// A study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// A description of the machine.
    pub machine: String,
    /// The fabric of the programs.
    pub carrier: Option<String>,
    /// Each program alone, and its time in seconds.
    pub alone: Vec<(Case, Spread)>,
    /// The tables with their numbers.
    pub tables: Vec<Filled>,
    /// The number of repeats completed, and requested of all cases.
    pub repeats: (u32, u32),
    /// The share that the overhead of each case was to be known to be over or under.
    pub limit: Option<f64>,
    /// Switches by the policy for network contexts; empty if not measured.
    pub contexts: Vec<Contexts>,
    /// Why cache misses were not counted; `None` if they were.
    pub not_counted: Option<String>,
    /// Whether all runs of a program gave the same result, however they were scheduled.
    pub same_results: bool,
}

/// Runs a study; runs that are kept already are not made again. If interrupted after at least one
/// complete repeat, it returns what it has.
///
/// # Errors
/// The first repeat is incomplete: something cannot be started or fails, or the study was
/// interrupted.
pub fn study(
    bench: &Bench,
    tables: &[Table],
    repeats: Repeats,
    machine: String,
    mut kept: Option<&mut Kept>,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Study, TrialError> {
    let mut cases = baselines(tables);
    for case in tables.iter().flat_map(|table| &table.cases) {
        if !cases.contains(case) {
            cases.push(case.clone());
        }
    }
    let most = repeats
        .until
        .map_or(repeats.all, |(_, most)| most.max(repeats.all));
    let mut done: Vec<BTreeMap<usize, Trial>> = Vec::new();
    let mut number = 0;
    'repeats: for repeat in 0..most {
        let (running, of) = match repeats.until {
            Some((limit, _)) if repeat >= repeats.all => {
                let running = undecided(tables, &cases, &done, limit);
                if running.is_empty() {
                    break;
                }
                (running, format!("at most {most}"))
            }
            _ => ((0..cases.len()).collect(), repeats.all.to_string()),
        };
        let mut of_this = BTreeMap::new();
        for place in 0..running.len() {
            // Each repeat starts with another case, so that no case always follows the same one.
            let at = running[(place + repeat as usize) % running.len()];
            progress.part(&format!("{} of {of}: {}", repeat + 1, words(&cases[at])));
            let share = f64::from(repeat) + place as f64 / running.len() as f64;
            progress.at(share / f64::from(most));
            number += 1;
            let before = kept
                .as_deref()
                .and_then(|kept| kept.get(repeat, &cases[at]));
            if let Some(trial) = before {
                of_this.insert(at, trial.clone());
                continue;
            }
            match bench.run(&cases[at], number, stop) {
                Ok(trial) => {
                    if let Some(kept) = kept.as_deref_mut() {
                        kept.add(repeat, &cases[at], &trial)?;
                    }
                    of_this.insert(at, trial);
                }
                Err(TrialError::Interrupted) if !done.is_empty() => break 'repeats,
                Err(error) => return Err(error),
            }
        }
        done.push(of_this);
    }
    Ok(Study {
        limit: repeats.until.map(|(limit, _)| limit),
        ..judge(tables, &cases, &done, repeats.all, machine)
    })
}

/// The cases of which it is not known whether their overhead is over the limit, each with its
/// programs alone.
fn undecided(
    tables: &[Table],
    cases: &[Case],
    done: &[BTreeMap<usize, Trial>],
    limit: f64,
) -> Vec<usize> {
    let mut wanted = BTreeSet::new();
    let compared = tables
        .iter()
        .filter(|table| table.compares == Compares::BackToBack);
    for case in compared.flat_map(|table| &table.cases) {
        let row = row(Compares::BackToBack, case, cases, done);
        if row.is_some_and(|row| row.ratio.is_over(limit).is_none()) {
            let alone = case.programs.iter().map(|program| {
                Case::together(std::slice::from_ref(program), case.treatment.baseline())
            });
            let of_case = alone.chain([case.clone()]);
            wanted.extend(of_case.filter_map(|one| cases.iter().position(|case| *case == one)));
        }
    }
    wanted.into_iter().collect()
}

fn judge(
    tables: &[Table],
    cases: &[Case],
    done: &[BTreeMap<usize, Trial>],
    wanted: u32,
    machine: String,
) -> Study {
    let mut filled = Vec::new();
    for table in tables {
        let rows = table.cases.iter();
        filled.push(Filled {
            table: table.clone(),
            rows: rows
                .filter_map(|case| row(table.compares, case, cases, done))
                .collect(),
        });
    }
    let alone = baselines(tables)
        .into_iter()
        .enumerate()
        .filter_map(|(at, case)| {
            let trials = done.iter().filter_map(|repeat| repeat.get(&at));
            let times: Vec<f64> = trials.map(|t| t.makespan().as_f64() / 1e9).collect();
            Some((case, Spread::of_repeats(&times)?))
        });
    let carriers = done
        .iter()
        .flat_map(BTreeMap::values)
        .flat_map(|t| &t.programs);
    let carrier = carriers
        .filter_map(|p| p.steps.as_ref())
        .map(|s| s.carrier.clone())
        .next();
    Study {
        machine,
        carrier,
        alone: alone.collect(),
        contexts: Vec::new(),
        not_counted: done
            .iter()
            .flat_map(BTreeMap::values)
            .find_map(|trial| misses(&trial.programs).err()),
        same_results: same_results(cases, done),
        tables: filled,
        repeats: (done.len() as u32, wanted),
        limit: None,
    }
}

/// The run of a program alone in a repeat, as the baseline of a treatment.
fn alone<'a>(
    cases: &[Case],
    repeat: &'a BTreeMap<usize, Trial>,
    program: &Program,
    treatment: Treatment,
) -> Option<&'a Trial> {
    let alone = Case::together(std::slice::from_ref(program), treatment.baseline());
    repeat.get(&cases.iter().position(|case| *case == alone)?)
}

/// Compares a case with its programs alone. `None` if no repeat has both.
fn row(
    compares: Compares,
    case: &Case,
    cases: &[Case],
    done: &[BTreeMap<usize, Trial>],
) -> Option<Row> {
    let at = cases.iter().position(|other| other == case)?;
    let (mut ratios, mut seconds, mut trials) = (Vec::new(), Vec::new(), Vec::new());
    let (mut more_misses, mut more_cpu, mut switching) = (Vec::new(), Vec::new(), Vec::new());
    for repeat in done {
        let Some(trial) = repeat.get(&at) else {
            continue;
        };
        let compared = match compares {
            Compares::BackToBack => 0..case.programs.len(),
            Compares::First => 0..1,
            Compares::Response => 1..case.programs.len(),
        };
        let apart: Option<Vec<&Trial>> = case.programs[compared.clone()]
            .iter()
            .map(|program| alone(cases, repeat, program, case.treatment))
            .collect();
        let apart = apart.unwrap_or_default();
        let times = times(compares, trial, &apart);
        if times.is_empty() {
            continue;
        }
        if let (Some(switches), [(_, time)]) = (&trial.switches, &times[..]) {
            switching.push(switches.total.as_f64() / time.as_f64());
        }
        for (took, time) in times {
            ratios.push(took.as_f64() / time.as_f64());
            seconds.push(took.as_f64() / 1e9);
        }
        trials.push(trial.clone());
        let cpu_apart = apart.iter().map(|t| cpu_time(&t.programs)).sum();
        if let (Some(apart @ 1..), Some(used)) =
            (cpu_apart, cpu_time(&trial.programs[compared.clone()]))
        {
            more_cpu.push(used as f64 / apart as f64);
        }
        let missed: Result<u64, String> = apart.iter().map(|t| misses(&t.programs)).sum();
        let together = misses(&trial.programs[compared]);
        if let (Ok(missed @ 1..), Ok(together)) = (missed, together) {
            more_misses.push(together as f64 / missed as f64);
        }
    }
    let spread = match compares {
        Compares::BackToBack | Compares::First => Spread::of_repeats,
        Compares::Response => Spread::of,
    };
    Some(Row {
        case: case.clone(),
        ratio: spread(&ratios)?,
        seconds: spread(&seconds)?,
        skew: skew(case, &trials),
        cache_misses: Spread::of_repeats(&more_misses),
        switching: Spread::of_repeats(&switching),
        cpu_time: Spread::of_repeats(&more_cpu),
        switches: trials.last().and_then(|trial| trial.switches.clone()),
        trials,
    })
}

/// The compared times of a trial and those of its programs apart; none if some are missing.
fn times(compares: Compares, trial: &Trial, apart: &[&Trial]) -> Vec<(Nanos, Nanos)> {
    let Some((last, before)) = apart.split_last() else {
        return Vec::new();
    };
    let all = match compares {
        // The next program begins when the previous command has ended.
        Compares::BackToBack => {
            let before: Nanos = before.iter().map(|t| t.until_over()).sum();
            vec![(trial.makespan(), before + last.makespan())]
        }
        Compares::First => vec![(trial.work_of_first(), last.makespan())],
        Compares::Response => (1..)
            .zip(apart)
            .map(|(program, alone)| (trial.response(program), alone.response(0)))
            .collect(),
    };
    all.into_iter()
        .filter(|(_, time)| *time > Nanos::ZERO)
        .collect()
}

/// CPU time of all ranks of some programs in nanoseconds; `None`: not all are built in.
fn cpu_time(programs: &[Seen]) -> Option<u64> {
    let of = |seen: &Seen| -> Option<u64> {
        let ranks = &seen.steps.as_ref()?.ranks;
        Some(ranks.iter().map(|rank| rank.cpu).sum())
    };
    programs.iter().map(of).sum()
}

/// Cache misses of all ranks of some programs, or why they were not counted.
fn misses(programs: &[Seen]) -> Result<u64, String> {
    let of_rank = |rank: &RankSteps| match &rank.cache_misses {
        Counted::Events(n) => Ok(*n),
        Counted::NotMeasured(why) => Err(why.clone()),
    };
    let of_program = |seen: &Seen| -> Result<u64, String> {
        match &seen.steps {
            Some(steps) => steps.ranks.iter().map(of_rank).sum(),
            None => Err("only those of the built-in programs are counted".to_owned()),
        }
    };
    programs.iter().map(of_program).sum()
}

/// Whether every run of a program gave the same sum, if it has one.
fn same_results(cases: &[Case], done: &[BTreeMap<usize, Trial>]) -> bool {
    let mut sums: Vec<(&Program, Option<u64>)> = Vec::new();
    for (at, trial) in done.iter().flatten() {
        let programs = cases.get(*at).map(|case| &case.programs);
        for (program, seen) in programs.into_iter().flatten().zip(&trial.programs) {
            let Some(steps) = &seen.steps else { continue };
            let sum = steps.sum.map(f64::to_bits);
            match sums.iter().find(|(of, _)| *of == program) {
                Some((_, first)) if *first != sum => return false,
                Some(_) => {}
                None => sums.push((program, sum)),
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_measure::FixedSteps;

    fn trial(times: &[(u64, u64)], sum: f64) -> Trial {
        let seen = |(begin, end): &(u64, u64)| Seen {
            submitted: *begin,
            begin: *begin,
            end: *end,
            over: *end,
            steps: Some(FixedSteps {
                ranks: Vec::new(),
                carrier: "test".to_owned(),
                sum: Some(sum),
            }),
        };
        Trial {
            programs: times.iter().map(seen).collect(),
            switches: None,
        }
    }

    #[test]
    fn cache_misses_are_compared_with_those_of_the_programs_alone_or_said_not_to_be_counted() {
        let tables = crate::case::given(&[Nanos::from_millis(10)], false);
        let cases: Vec<Case> = [baselines(&tables), tables[0].cases.clone()].concat();
        let ran = |misses: &[Counted]| {
            let mut trial = trial(&vec![(0, 10); misses.len()], 1.0);
            for (program, misses) in trial.programs.iter_mut().zip(misses) {
                let half = RankSteps {
                    cache_misses: misses.clone(),
                    ..RankSteps::default()
                };
                program.steps.as_mut().unwrap().ranks = vec![half.clone(), half];
            }
            trial
        };
        let n = Counted::Events;
        let mut repeat = BTreeMap::from([
            (0, ran(&[n(100)])),
            (1, ran(&[n(300)])),
            (2, ran(&[n(150), n(350)])),
            (3, ran(&[n(100), n(700)])),
        ]);
        let found = judge(&tables, &cases, &[repeat.clone()], 1, String::new());
        let more = |row: usize| found.tables[0].rows[row].cache_misses.map(|m| m.median);
        assert_eq!((more(0), more(1)), (Some(1.25), Some(2.0)));
        assert_eq!(found.not_counted, None);
        let why = Counted::NotMeasured("no counter".to_owned());
        repeat.insert(3, ran(&[n(100), why]));
        let found = judge(&tables, &cases, &[repeat], 1, String::new());
        let more = |row: usize| found.tables[0].rows[row].cache_misses.map(|m| m.median);
        assert_eq!((more(0), more(1)), (Some(1.25), None));
        assert_eq!(found.not_counted.as_deref(), Some("no counter"));
    }

    #[test]
    fn one_after_the_other_the_next_begins_when_the_command_before_has_ended() {
        let tables = crate::case::given(&[Nanos::from_millis(10)], false);
        let cases: Vec<Case> = [baselines(&tables), tables[0].cases.clone()].concat();
        let mut alone = [trial(&[(3, 10)], 1.0), trial(&[(5, 20)], 1.0)];
        alone[0].programs[0].over = 13;
        alone[1].programs[0].over = 99;
        let mut pair = trial(&[(0, 40), (2, 50)], 1.0);
        pair.programs[0].over = 77;
        let [first, second] = alone;
        let repeat = BTreeMap::from([(0, first), (1, second), (2, pair)]);
        let found = judge(&tables, &cases, &[repeat], 1, String::new());
        assert_eq!(found.tables[0].rows[0].ratio.median, 50.0 / (10.0 + 15.0));
    }

    #[test]
    fn cases_run_until_it_is_known_whether_they_are_over_the_limit() {
        let tables = crate::case::given(&[Nanos::from_millis(10)], false);
        let cases: Vec<Case> = [baselines(&tables), tables[0].cases.clone()].concat();
        // Alone 2 and 3; in turns at and above 1 % more, freely 40 % more.
        let repeat = |pair: u64| {
            BTreeMap::from([
                (0, trial(&[(0, 2_000)], 1.0)),
                (1, trial(&[(0, 3_000)], 1.0)),
                (2, trial(&[(0, pair), (0, pair)], 1.0)),
                (3, trial(&[(0, 7_000), (0, 7_000)], 1.0)),
            ])
        };
        let mut done: Vec<_> = [5_049, 5_050, 5_051, 5_052, 5_053].map(repeat).to_vec();
        // Five have no interval.
        assert_eq!(undecided(&tables, &cases, &done, 0.01), [0, 1, 2, 3]);
        done.push(repeat(5_054));
        let found = judge(&tables, &cases, &done, 6, String::new());
        let [turns, free] = [0, 1].map(|row: usize| found.tables[0].rows[row].ratio);
        assert_eq!(turns.interval, Some((1.0098, 1.0108)));
        assert_eq!(
            (turns.is_over(0.01), free.is_over(0.01)),
            (None, Some(true))
        );
        assert_eq!(undecided(&tables, &cases, &done, 0.01), [0, 1, 2]);
        let limited = Study {
            limit: Some(0.01),
            ..found.clone()
        };
        let text = crate::text::text(&limited);
        assert!(
            text.contains("of 2: under 1.00 % 0, > over 1, ? not known 1"),
            "{text}"
        );
        let marks = text.lines().filter(|l| l.starts_with(['>', '?']));
        assert_eq!(marks.count(), 2);
        assert_eq!(turns.is_over(0.0108), Some(false));
        assert_eq!(turns.is_over(0.0097), Some(true));
        assert!(undecided(&tables, &cases, &done, 0.02).is_empty());
    }

    #[test]
    fn the_first_of_an_unequal_pair_is_compared_with_itself_alone() {
        let case = Case::together(&[Program::Given(0), Program::Given(1)], Treatment::Free);
        let tables = [Table {
            name: String::new(),
            compares: Compares::First,
            cases: vec![case.clone()],
        }];
        let cases: Vec<Case> = [baselines(&tables), vec![case]].concat();
        let s = 1_000_000_000;
        let repeat = BTreeMap::from([
            (0, trial(&[(0, 2 * s)], 1.0)),
            (1, trial(&[(0, 9 * s)], 2.0)),
            (2, trial(&[(s, 4 * s), (0, 20 * s)], 1.0)),
        ]);
        let found = judge(&tables, &cases, &[repeat], 1, String::new());
        let row = &found.tables[0].rows[0];
        assert_eq!((row.ratio.median, row.seconds.median), (1.5, 3.0));
    }

    #[test]
    fn a_program_that_arrives_is_compared_from_its_arrival_to_its_end() {
        let programs = [Program::Given(0), Program::Given(1), Program::Given(2)];
        let s = 1_000_000_000;
        let case = Case {
            arrivals: [0, 1, 2].map(Nanos::from_secs).to_vec(),
            ..Case::together(&programs, Treatment::Switched(Nanos::from_millis(10)))
        };
        let table = |compares| Table {
            name: String::new(),
            compares,
            cases: vec![case.clone()],
        };
        let tables = [table(Compares::Response), table(Compares::First)];
        let cases: Vec<Case> = [baselines(&tables), vec![case.clone()]].concat();
        // Each alone begins its work half a second after it was submitted.
        let alone = |length: u64| {
            let mut trial = trial(&[(s / 2, length)], 1.0);
            trial.programs[0].submitted = 0;
            trial
        };
        let mut mixed = trial(&[(s / 2, 13 * s), (2 * s, 4 * s), (4 * s, 5 * s)], 1.0);
        for (program, at) in mixed.programs.iter_mut().zip(0..) {
            program.submitted = at * s;
        }
        mixed.switches = Some(SwitchStatus {
            total: Nanos::from_secs(1),
            ..SwitchStatus::default()
        });
        let repeat = BTreeMap::from([
            (0, alone(10 * s)),
            (1, alone(s)),
            (2, alone(2 * s)),
            (3, mixed),
        ]);
        let found = judge(&tables, &cases, &[repeat], 1, String::new());
        let [response, first] = [0, 1].map(|table: usize| &found.tables[table].rows[0]);
        // 1 s alone took 3 s, and 2 s alone took 3 s.
        assert_eq!((response.ratio.least, response.ratio.most), (1.5, 3.0));
        assert_eq!((response.ratio.n, response.switching), (2, None));
        // 12.5 s of work instead of 9.5 s, of which switches took 1 s.
        assert_eq!(first.ratio.median, 12.5 / 9.5);
        assert_eq!(first.switching.map(|s| s.median), Some(1.0 / 9.5));
    }

    #[test]
    fn a_pair_is_compared_with_its_programs_one_after_the_other_in_the_same_repeat() {
        let slice = Nanos::from_millis(10);
        let tables = crate::case::given(&[slice], false);
        let cases: Vec<Case> = [baselines(&tables), tables[0].cases.clone()].concat();
        assert_eq!(cases.len(), 4);
        let s = 1_000_000_000;
        let repeat = |pair: u64| {
            BTreeMap::from([
                (0, trial(&[(0, 2 * s)], 1.0)),
                (1, trial(&[(5 * s, 8 * s)], 2.0)),
                (2, trial(&[(0, pair), (s, pair + s)], 1.0)),
                (3, trial(&[(0, 10 * s), (0, 4 * s)], 1.0)),
            ])
        };
        let done = [repeat(4 * s), repeat(5 * s), repeat(9 * s)];
        let found = judge(&tables, &cases, &done, 3, String::new());
        let rows = &found.tables[0].rows;
        // Alone 2 s and 3 s; together until 5, 6 and 10 s.
        assert_eq!(rows[0].ratio.median, 1.2);
        assert_eq!(
            (rows[0].ratio.least, rows[0].ratio.most, rows[0].ratio.n),
            (1.0, 2.0, 3)
        );
        assert_eq!((rows[1].ratio.median, rows[1].seconds.median), (2.0, 10.0));
        assert_eq!(found.alone[1].1.median, 3.0);
        // The second program's result was 2 alone, and 1 together with the other.
        assert!(!found.same_results);
    }
}
