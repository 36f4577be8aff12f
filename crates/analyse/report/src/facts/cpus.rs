//! What both renderings say of CPUs measured by themselves, of their nodes, and of how sources strike
//! them.

use super::source_name;
use idlewave_run::findings::{
    Estimate, LoadSweep, NodeMeasure, NodeRank, NodeReason, NodesFindings, Pattern, Relation,
    Repeated, ReservedGaps, WarmUp,
};
use idlewave_run::{Conditions, ReservedBy, WorkKernel};
use idlewave_units::show::{self, percent};
use idlewave_units::{Bytes, Cpu, Nanos, counted};

/// Under which conditions CPUs were measured, if not the usual ones.
pub(crate) fn conditions(found: &Conditions) -> Option<String> {
    let mut said = Vec::new();
    if found.one_at_a_time {
        said.push("one CPU after the other".to_owned());
    }
    if !found.neighbours.is_empty() {
        let names: Vec<&str> = found.neighbours.iter().map(|n| n.name()).collect();
        said.push(format!("neighbours: {}", names.join(", ")));
    }
    if let Some(realtime) = found.realtime {
        said.push(format!("real-time priority {}", realtime.priority));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// What the kernel took on purpose from a CPU's real-time thread.
pub(crate) fn reserved(cpu: Cpu, found: &ReservedGaps, conditions: &Conditions) -> String {
    let (name, why) = match found.by {
        ReservedBy::Throttling => ("RT throttling", "stops real-time threads"),
        ReservedBy::FairServer => ("fair server", "lets waiting ordinary threads run"),
    };
    let reserve = conditions.realtime.and_then(|r| r.reserve);
    let of = reserve.map(|r| format!(" for {} of every {}", r.time, r.period));
    let every = found.distance.map(|d| format!(", {d} apart"));
    format!(
        "CPU {cpu}: {name}, {} of about {}{} ({} of the time): the kernel {why}{}. Not noise that an ordinary program \
         would suffer.",
        counted(found.count, "gap"),
        show::time(found.length.value),
        every.unwrap_or_default(),
        percent(found.share),
        of.unwrap_or_default(),
    )
}

/// "12,345 steps of integer"; the kind alone is said where it is not the usual.
pub(crate) fn work(steps: u64, kernel: WorkKernel, array: Option<Bytes>) -> String {
    let of = match (kernel, array) {
        (WorkKernel::Fibonacci, _) => String::new(),
        (_, None) => format!(" of {}", kernel.name()),
        (_, Some(array)) => format!(" of {} ({array})", kernel.name()),
    };
    format!("{}{of}", counted(steps, "step"))
}

/// How a source strikes the CPUs of a node: in a few words, and in a sentence with the evidence.
pub(crate) fn relation(found: &Relation) -> (String, String) {
    let some = percent(found.coincide);
    let offsets: Vec<String> = found.offsets.iter().map(|o| show::time(o.value)).collect();
    let said = match found.pattern {
        Pattern::Together | Pattern::Partly | Pattern::Independent => format!(
            "{some} of the strikes, beyond chance, start within {} of one on a neighbouring CPU",
            Nanos::from_nanos(found.window_ns)
        ),
        Pattern::EvenlySpread | Pattern::Staggered => format!(
            "one period on all CPUs, and the others are behind the first by {}",
            offsets.join(", ")
        ),
        Pattern::OneAtATime => "the node has a period, each time on one of its CPUs".to_owned(),
    };
    let label = match found.pattern {
        Pattern::Together => "all at once".to_owned(),
        Pattern::EvenlySpread => "evenly spread".to_owned(),
        Pattern::Staggered => "staggered".to_owned(),
        Pattern::OneAtATime => "one at a time".to_owned(),
        Pattern::Partly => format!("{some} at once"),
        Pattern::Independent => "independent".to_owned(),
    };
    let p = match found.p {
        p if p < 1e-4 => "p < 0.0001".to_owned(),
        p => format!("p = {p:.4}"),
    };
    (label, format!("{said} ({p})"))
}

/// What all nodes lost together, and to whom.
pub(crate) fn nodes_total(found: &NodesFindings) -> String {
    let Some(stolen) = &found.stolen else {
        return "detours were not measured".to_owned();
    };
    let mut said = format!(
        "{} ({} to {}) of the time stolen, {} on all CPUs together",
        percent(stolen.value),
        percent(stolen.low),
        percent(stolen.high),
        found.taken
    );
    if let Some(worst) = &found.offender {
        let mut names = found.ranked.iter().filter(|n| n.node == worst.node);
        said.push_str(&format!(
            "; most by {}: {}, {} of it on {}",
            source_name(worst.kind, &worst.name),
            worst.taken,
            worst.taken_there,
            names.next().map_or("", |n| n.name.as_str()),
        ));
    }
    said
}

/// In what a node differs from its peers, and why.
pub(crate) fn node_reason(node: &NodeRank, reason: &NodeReason) -> String {
    let place = match reason.cpu {
        Some(cpu) => format!("{}, CPU {cpu}", node.name),
        None => format!("{}, mean over its CPUs", node.name),
    };
    let value = &reason.value;
    let values = match reason.measure {
        NodeMeasure::Stolen => format!(
            "{} stolen ({} to {}), on its peers {}",
            percent(value.value),
            percent(value.low),
            percent(value.high),
            percent(reason.peers)
        ),
        NodeMeasure::Work => format!(
            "the same work takes {} ({} to {}), on its peers {}",
            show::time(value.value),
            show::time(value.low),
            show::time(value.high),
            show::time(reason.peers)
        ),
    };
    format!("{place}: {values}; {}", reason.because)
}

/// How long a CPU took to settle, and how much slower it was until then.
pub(crate) fn warm_up(found: &WarmUp) -> String {
    match found.settled_after {
        None => "never settled".to_owned(),
        Some(Nanos::ZERO) => "none".to_owned(),
        Some(after) => format!("{after} {}", show::factor(found.ratio)),
    }
}

/// What to make of several starts of a CPU.
pub(crate) fn warm_up_sentence(cpu: Cpu, found: &Repeated) -> String {
    let skip = Nanos::from_nanos(found.settled_after.high as u64);
    match found.is_warm_up() {
        false => format!("CPU {cpu}: no warm-up that repeats"),
        true => format!("CPU {cpu}: leave out the first {skip} of a measurement"),
    }
}

/// What a load sweep shows: does a timer tick last longer, and work take longer, with all CPUs busy;
/// and are the first CPU's ticks longer than those of others. Without a kernel trace, detours of all
/// kinds stand for the ticks.
pub(crate) fn load_sentences(sweep: &LoadSweep) -> Vec<String> {
    let mut out = Vec::new();
    let (Some(one), Some(all)) = (sweep.points.first(), sweep.points.last()) else {
        return out;
    };
    let mut say = |begin: String, a: &Option<Estimate>, b: &Option<Estimate>, end: &str| {
        let (Some(a), Some(b)) = (a, b) else {
            return false;
        };
        let (than, times) = (compared(a, b), [a, b].map(|e| show::time(e.value)));
        out.push(format!(
            "{begin} {than} as {end}: median {} against {}",
            times[0], times[1]
        ));
        true
    };
    let first = sweep.first;
    let busy = format!("with {} busy", counted(all.busy, "CPU"));
    let few = format!("with {}", one.busy);
    let ticks = say(
        format!("{busy} a timer tick on CPU {first} is"),
        &all.tick,
        &one.tick,
        &few,
    );
    if !ticks {
        let begin = format!("{busy} a detour is");
        say(begin, &all.length, &one.length, &few);
    }
    let begin = format!("{busy} the same work on CPU {first} takes");
    say(begin, &all.work, &one.work, &few);
    let ticks = say(
        format!("a timer tick on CPU {first} is"),
        &sweep.tick_of_first,
        &sweep.tick_of_others,
        "one on other CPUs",
    );
    if !ticks {
        say(
            format!("a detour on CPU {first} is"),
            &sweep.length_of_first,
            &sweep.length_of_others,
            "one on other CPUs",
        );
    }
    out
}

/// How long the first is, if their intervals do not overlap: "1.20 times as long", to be followed by
/// "as ...".
fn compared(a: &Estimate, b: &Estimate) -> String {
    match a.low > b.high || a.high < b.low {
        true => format!("{} times as long", show::digits(a.value / b.value)),
        false => "about as long".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::findings::LoadPoint;
    use idlewave_units::CpuSet;

    #[test]
    fn a_load_sweep_tells_of_ticks_and_without_a_trace_of_detours() {
        let estimate = |value: f64| Estimate {
            value,
            low: 0.99 * value,
            high: 1.01 * value,
            n: 100,
            method: String::new(),
        };
        let point = |busy, length, tick: Option<f64>| LoadPoint {
            busy,
            cpus: CpuSet::new(),
            stolen: estimate(0.01),
            rate: estimate(100.0),
            length: Some(estimate(length)),
            tick: tick.map(estimate),
            work: None,
        };
        let sweep = |ticks: bool| LoadSweep {
            first: Cpu::new(0),
            points: vec![
                point(1, 1_000.0, ticks.then_some(4_000.0)),
                point(2, 9_000.0, ticks.then_some(5_000.0)),
            ],
            length_of_first: Some(estimate(9_000.0)),
            length_of_others: Some(estimate(3_000.0)),
            tick_of_first: ticks.then(|| estimate(5_000.0)),
            tick_of_others: ticks.then(|| estimate(5_010.0)),
        };
        assert_eq!(
            load_sentences(&sweep(true)),
            [
                "with 2 CPUs busy a timer tick on CPU 0 is 1.25 times as long as with 1: median 5.00 us against 4.00 us",
                "a timer tick on CPU 0 is about as long as one on other CPUs: median 5.00 us against 5.01 us",
            ]
        );
        assert_eq!(
            load_sentences(&sweep(false)),
            [
                "with 2 CPUs busy a detour is 9.00 times as long as with 1: median 9.00 us against 1.00 us",
                "a detour on CPU 0 is 3.00 times as long as one on other CPUs: median 9.00 us against 3.00 us",
            ]
        );
    }
}
