//! The cases to compare: which programs run, and how they are scheduled.

use idlewave_gang_agent::Copying;
use idlewave_units::Nanos;
use serde::{Deserialize, Serialize};

/// A program of a study.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// An allreduce of 8 bytes after each stretch of computation of this length.
    Fine(Nanos),
    /// Computation alone.
    Compute,
    /// The given command with this index.
    Given(usize),
    /// The benchmark of this name ([`Benchmark`](idlewave_measure::Benchmark)), as in `cg:A`.
    Benchmark(String),
}

/// How the programs are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// One program has the machine to itself.
    Alone,
    /// Gang switching at every slice, even of a single program.
    Switched(Nanos),
    /// Gang switching; turns that a gang does not use go to the other.
    Yielding(Nanos),
    /// Several programs, with no coscheduling: the kernel's scheduler shares the CPUs among their
    /// ranks.
    Free,
    /// The same, but waiting ranks yield their CPU.
    FreeYield,
    /// One program has the machine to itself, and its ranks talk over network contexts.
    AloneOnContexts,
    /// Gang switching at every slice, network contexts included.
    Contexts(Nanos, Copying),
    /// Programs run one after the other, in the order in which they arrive.
    Queue,
}

impl Treatment {
    /// How a program runs alone to compare this with.
    pub(crate) const fn baseline(self) -> Self {
        match self {
            Self::Contexts(..) | Self::AloneOnContexts => Self::AloneOnContexts,
            _ => Self::Alone,
        }
    }

    /// Its slice, if it switches.
    pub const fn slice(self) -> Option<Nanos> {
        match self {
            Self::Switched(slice) | Self::Yielding(slice) | Self::Contexts(slice, _) => Some(slice),
            _ => None,
        }
    }
}

/// One case of a study.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// Programs that run together.
    pub programs: Vec<Program>,
    /// How they are scheduled.
    pub treatment: Treatment,
    /// When each of them is submitted, since the first. Empty: all begin at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<Nanos>,
}

impl Case {
    /// Programs that begin at the same time.
    pub(crate) fn together(programs: &[Program], treatment: Treatment) -> Self {
        Self {
            programs: programs.to_vec(),
            treatment,
            arrivals: Vec::new(),
        }
    }
}

/// A table of a study: cases that are compared with their programs alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// What its numbers compare.
    pub compares: Compares,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// What the numbers of a table compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compares {
    /// The time until all have ended their work, over the time one after the other: each program
    /// until its command has ended, the last one until its work has.
    BackToBack,
    /// The time of the first program's work, over its time alone.
    First,
    /// From the arrival of every program but the first until its command has ended, over the same
    /// alone.
    Response,
}

/// Computation between two allreduces of the programs of the pair.
pub const PAIR: Nanos = Nanos::from_micros(100);
/// The same for the fine-grained program of the unequal pair.
pub const FINE: Nanos = Nanos::from_micros(20);

/// The tables of the built-in study. Cases with yielding ranks require a launcher whose library
/// yields on request.
pub fn built_in(slices: &[Nanos], yields: bool) -> Vec<Table> {
    let case = Case::together;
    let pair = [Program::Fine(PAIR), Program::Fine(PAIR)];
    let unequal = [Program::Fine(FINE), Program::Compute];
    let longest = slices
        .iter()
        .max()
        .copied()
        .unwrap_or(Nanos::from_millis(100));
    let switched = |programs: &[Program]| -> Vec<Case> {
        slices
            .iter()
            .map(|slice| case(programs, Treatment::Switched(*slice)))
            .collect()
    };
    let free = |programs: &[Program]| {
        let mut cases = vec![case(programs, Treatment::Free)];
        if yields {
            cases.push(case(programs, Treatment::FreeYield));
        }
        cases
    };
    let mut two = switched(&pair);
    two.push(case(&pair, Treatment::Yielding(longest)));
    two.extend(free(&pair));
    let mut fine = switched(&unequal);
    fine.extend(free(&unequal));
    let table = |name: &str, compares, cases| Table {
        name: name.to_owned(),
        compares,
        cases,
    };
    vec![
        table(
            "one program alone, switched",
            Compares::BackToBack,
            switched(&pair[..1]),
        ),
        table("two equal programs", Compares::BackToBack, two),
        table(
            "a fine-grained program beside one that computes",
            Compares::First,
            fine,
        ),
    ]
}

/// The table of two given programs.
pub fn given(slices: &[Nanos], yields: bool) -> Vec<Table> {
    let both = vec![Program::Given(0), Program::Given(1)];
    let mut treatments: Vec<Treatment> = slices.iter().map(|s| Treatment::Switched(*s)).collect();
    treatments.push(Treatment::Free);
    if yields {
        treatments.push(Treatment::FreeYield);
    }
    let cases = treatments
        .into_iter()
        .map(|treatment| Case::together(&both, treatment));
    vec![Table {
        name: "two programs".to_owned(),
        compares: Compares::BackToBack,
        cases: cases.collect(),
    }]
}

/// Each program of the tables alone, once per baseline of its treatments: what all comparisons need.
pub fn baselines(tables: &[Table]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for case in tables.iter().flat_map(|t| &t.cases) {
        for program in &case.programs {
            let alone = Case::together(std::slice::from_ref(program), case.treatment.baseline());
            if !cases.contains(&alone) {
                cases.push(alone);
            }
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_tables_runs_alone_once() {
        let tables = built_in(&[Nanos::from_millis(10), Nanos::from_millis(100)], true);
        let alone = baselines(&tables);
        let programs: Vec<&Program> = alone.iter().map(|case| &case.programs[0]).collect();
        assert_eq!(
            programs,
            [
                &Program::Fine(PAIR),
                &Program::Fine(FINE),
                &Program::Compute
            ]
        );
        assert!(alone.iter().all(|case| case.treatment == Treatment::Alone));
        let cases: Vec<usize> = tables.iter().map(|table| table.cases.len()).collect();
        assert_eq!(cases, [2, 5, 4]);
        let without: Vec<usize> = built_in(&[FINE], false)
            .iter()
            .map(|t| t.cases.len())
            .collect();
        assert_eq!(without, [1, 3, 2]);
        assert_eq!(baselines(&given(&[FINE], false)).len(), 2);
    }
}
