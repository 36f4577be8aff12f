//! Why a comparison of two runs may be unfair.

use idlewave_run::findings::Findings;
use idlewave_run::{HostSheet, Manifest, NodeSheet, PhaseKind, TraceMode};
use std::collections::BTreeSet;

/// One sentence per reason, first what falsifies most.
pub fn warnings(runs: [(&Manifest, &Findings); 2]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (letter, (manifest, findings)) in ["A", "B"].into_iter().zip(runs) {
        let busy = findings.busy_nodes(manifest).into_iter();
        warnings.extend(busy.map(|said| format!("{letter}: {said}")));
    }
    let manifests = runs.map(|(manifest, _)| manifest);
    warnings.extend(one_has(
        manifests.map(|m| m.simulated.is_some()),
        "is simulated, the other was measured",
    ));
    warnings.extend(one_has(
        manifests.map(is_traced),
        "was recorded with a kernel trace, which itself takes time from what is measured",
    ));
    warnings.extend(unlike(manifests));
    warnings
}

fn one_has([a, b]: [bool; 2], what: &str) -> Option<String> {
    (a != b).then(|| format!("only {} {what}", if a { "A" } else { "B" }))
}

/// Whether the run names what took its CPUs.
pub fn is_traced(manifest: &Manifest) -> bool {
    let traced = |n: &NodeSheet| n.trace.mode == TraceMode::Tracefs;
    manifest.simulated.is_some() || manifest.nodes.iter().all(traced)
}

/// In what the machines, and what was run there, differ.
fn unlike(manifests: [&Manifest; 2]) -> Option<String> {
    let settings = manifests.map(settings);
    let [a, b] = &settings;
    let differ: Vec<String> = a
        .iter()
        .zip(b)
        .filter_map(|((what, a), (_, b))| match (a, b) {
            (Some(a), Some(b)) if a != b => Some(format!("{what} ({a}, {b})")),
            _ => None,
        })
        .collect();
    (!differ.is_empty()).then(|| {
        format!(
            "A and B differ in more than their results, and any of it may be the reason: {}",
            differ.join(", ")
        )
    })
}

/// What matters for noise, by name; `None` is not known.
fn settings(manifest: &Manifest) -> Vec<(&'static str, Option<String>)> {
    let names: BTreeSet<&str> = manifest
        .nodes
        .iter()
        .map(|n| n.host.name.as_str())
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    let recorded = |phase: &idlewave_run::Phase| matches!(phase.kind, PhaseKind::Recorded { .. });
    let command = manifest.command.join(" ");
    let of_program = manifest.phases.iter().any(recorded).then_some(command);
    let conditions = &manifest.conditions;
    let loads: Vec<&str> = conditions.neighbours.iter().map(|n| n.name()).collect();
    let beside = if loads.is_empty() {
        "none".to_owned()
    } else {
        loads.join(" and ")
    };
    let priority = conditions.realtime.map(|realtime| realtime.priority);
    let host = manifest.nodes.first().map(|n| &n.host);
    let known = |of: fn(&HostSheet) -> Option<String>| host.and_then(of).filter(|s| !s.is_empty());
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    vec![
        ("machine", Some(names.join(" ")).filter(|n| !n.is_empty())),
        ("processor", known(|h| h.cpu_model.clone())),
        ("CPUs online", known(|h| Some(h.online.to_string()))),
        ("SMT", host.and_then(|h| h.smt).map(on)),
        ("kernel", known(|h| Some(h.kernel.clone()))),
        (
            "kernel command line",
            known(|h| h.kernel_command_line.clone()),
        ),
        ("governor", known(|h| h.governor.clone())),
        ("turbo", host.and_then(|h| h.turbo).map(on)),
        ("hypervisor", known(|h| h.hypervisor.clone())),
        ("load beside", Some(beside)),
        (
            "CPUs measured",
            Some(
                if conditions.one_at_a_time {
                    "one by one"
                } else {
                    "all at once"
                }
                .to_owned(),
            ),
        ),
        (
            "real-time priority",
            Some(priority.map_or_else(|| "none".to_owned(), |p| p.to_string())),
        ),
        ("command", of_program),
    ]
}
