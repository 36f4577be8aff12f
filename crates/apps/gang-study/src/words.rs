//! Cases in words.

use crate::case::{Case, Program, Table, Treatment};

/// A description of a case.
pub fn words(case: &Case) -> String {
    format!(
        "{}, {}",
        programs_words(case),
        treatment_words(case.treatment)
    )
}

/// The programs of a case.
pub(crate) fn programs_words(case: &Case) -> String {
    let names: Vec<String> = case.programs.iter().map(program_words).collect();
    let (Some(first), Some(last)) = (names.first(), names.last()) else {
        return String::new();
    };
    match names.len() {
        1 => first.clone(),
        2 => format!("{first} and {last}"),
        n => format!("{first} and {} short programs", n - 1),
    }
}

/// A description of a case that tells it from the others of its table.
pub fn row_words(table: &Table, case: &Case) -> String {
    let Some(first) = table.cases.first() else {
        return words(case);
    };
    let same = |f: fn(&Case, &Case) -> bool| table.cases.iter().all(|case| f(first, case));
    if same(|a, b| a.programs == b.programs) {
        return treatment_words(case.treatment);
    }
    if same(|a, b| a.treatment == b.treatment) {
        return programs_words(case);
    }
    words(case)
}

/// A description of a program.
pub fn program_words(program: &Program) -> String {
    match program {
        Program::Fine(work) => format!("allreduce every {work}"),
        Program::Compute => "computation alone".to_owned(),
        Program::Given(i) => format!("program {}", i + 1),
        Program::Benchmark(name) => name.clone(),
    }
}

/// A description of a treatment.
pub fn treatment_words(treatment: Treatment) -> String {
    match treatment {
        Treatment::Alone => "alone".to_owned(),
        Treatment::Switched(slice) => format!("gang switching, {slice}"),
        Treatment::Yielding(slice) => format!("gang switching, {slice}, idle gangs yield"),
        Treatment::Free => "no coscheduling".to_owned(),
        Treatment::FreeYield => "no coscheduling, ranks yield".to_owned(),
        Treatment::AloneOnContexts => "alone, on network contexts".to_owned(),
        Treatment::Contexts(slice, copying) => {
            format!("switched, {slice}, contexts {}", copying.name())
        }
        Treatment::Queue => "one after the other".to_owned(),
    }
}
