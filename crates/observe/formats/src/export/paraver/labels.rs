//! Names of types and values (.pcf), and of objects (.row).

use crate::export::paraver::survey::Survey;
use crate::export::paraver::text::{label, small};
use crate::export::{Export, ExportError, Job};
use crate::prv;
use idlewave_run::tables::*;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

/// Names that the events of this run use.
pub(super) struct Names {
    /// Rows of `operations`: type, value and name.
    calls: HashMap<u32, (u32, u64, String)>,
    marks: HashMap<String, u64>,
    sources: Vec<(u32, String)>,
    findings: Vec<String>,
    cpus: Vec<String>,
}

impl Names {
    pub(super) fn new(job: &Job<'_>) -> Result<Self, ExportError> {
        let mut names = Self {
            calls: HashMap::new(),
            marks: HashMap::new(),
            sources: Vec::new(),
            findings: Vec::new(),
            cpus: Vec::new(),
        };
        job.run.for_each::<Operations>(|row| {
            let class = match row.class {
                OperationClass::Send
                | OperationClass::Receive
                | OperationClass::SendReceive
                | OperationClass::Complete => prv::POINT_TO_POINT,
                OperationClass::AllToAll
                | OperationClass::FromRoot
                | OperationClass::ToRoot
                | OperationClass::Prefix
                | OperationClass::Neighbour
                | OperationClass::StartCollective => prv::COLLECTIVE,
                _ => prv::OTHER,
            };
            let own = (class, prv::FIRST_OWN_CALL + u64::from(row.id));
            let (kind, value) = prv::call(&row.name).unwrap_or(own);
            names.calls.insert(row.id, (kind, value, label(&row.name)));
        })?;
        job.run.for_each::<Sources>(|row| {
            let name = format!("{} {}", row.kind.label(), row.name);
            names.sources.push((row.id, label(&name)));
        })?;
        if let Some(findings) = job.run.findings()? {
            let sources = findings.sources.iter();
            let name = |s: &idlewave_run::findings::SourceFinding| {
                label(&format!("{} {}", s.kind.label(), s.name))
            };
            names.findings = sources.map(name).collect();
        }
        Ok(names)
    }

    /// Type and value of calls of this row of `operations`.
    pub(super) fn call(&self, operation: u32) -> (u32, u64) {
        match self.calls.get(&operation) {
            Some(&(kind, value, _)) => (kind, value),
            None => (prv::OTHER, prv::FIRST_OWN_CALL + u64::from(operation)),
        }
    }

    /// The number of a marked region's name.
    pub(super) fn mark(&mut self, name: &str) -> u64 {
        if let Some(&number) = self.marks.get(name) {
            return number;
        }
        let number = self.marks.len() as u64 + 1;
        self.marks.insert(name.to_owned(), number);
        number
    }

    /// Writes the .pcf.
    pub(super) fn write(
        mut self,
        path: &Path,
        survey: &Survey,
        export: &mut Export,
    ) -> Result<(), ExportError> {
        self.cpus = cpu_names(survey);
        let mut text = "DEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC\n\
            LOOK_BACK           100\nSPEED               1\nFLAG_ICONS          ENABLED\nNUM_OF_STATE_COLORS 1000\n\
            YMAX_SCALE          37\n\n\nDEFAULT_SEMANTIC\n\nTHREAD_FUNC         State As Is\n\n\nSTATES\n"
            .to_owned();
        for (state, name, _) in prv::STATES {
            let _ = writeln!(text, "{state}    {name}");
        }
        text.push_str("\n\nSTATES_COLOR\n");
        for (state, _, [r, g, b]) in prv::STATES {
            let _ = writeln!(text, "{state}    {{{r},{g},{b}}}");
        }
        self.types(&mut text, survey);
        small(path, &text, export)
    }

    fn types(&self, text: &mut String, survey: &Survey) {
        let numbered = |names: &[String]| -> Vec<(u64, String)> {
            let names = names.iter().zip(1..);
            names.map(|(name, at)| (at, name.clone())).collect()
        };
        let kinds = |kinds: &[RegionKind]| -> Vec<(u64, String)> {
            let name = |k: &RegionKind| (u64::from(k.code()) + 1, region(*k).to_owned());
            kinds.iter().map(name).collect()
        };
        let mut ranks: Vec<_> = survey.objects.ranks.keys().copied().collect();
        ranks.sort_unstable();
        let rank = |r: &idlewave_units::Rank| (u64::from(r.get()) + 1, format!("rank {r}"));
        let ranks: Vec<(u64, String)> = ranks.iter().map(rank).collect();
        let mut marks: Vec<(u64, String)> = Vec::new();
        marks.extend(self.marks.iter().map(|(name, &at)| (at, label(name))));
        marks.sort_unstable();
        let source = |(id, name): &(u32, String)| (u64::from(*id) + 1, name.clone());
        let sources: Vec<_> = self.sources.iter().map(source).collect();

        list(
            text,
            &[(prv::CPU, "CPU of the task")],
            "off the CPUs",
            &numbered(&self.cpus),
        );
        let depths = 0..=u32::from(survey.depth);
        let depths: Vec<(u32, String)> = depths
            .map(|depth| match depth {
                0 => (prv::INTERRUPT, "Interrupt".to_owned()),
                _ => (
                    prv::INTERRUPT + depth,
                    format!("Interrupt, nested {depth} deep"),
                ),
            })
            .collect();
        let depths: Vec<(u32, &str)> = depths.iter().map(|(t, n)| (*t, n.as_str())).collect();
        list(text, &depths, "end", &sources);
        let calls = [
            (prv::POINT_TO_POINT, "MPI Point-to-point"),
            (prv::COLLECTIVE, "MPI Collective Comm"),
            (prv::OTHER, "MPI Other"),
        ];
        for of in calls {
            let called = self.calls.values().filter(|(kind, ..)| *kind == of.0);
            let mut called: Vec<_> = called
                .map(|(_, value, name)| (*value, name.clone()))
                .collect();
            called.sort_unstable();
            list(text, &[of], "Outside MPI", &called);
        }
        list(
            text,
            &[(prv::BYTES_SENT, "Send size of a collective")],
            "",
            &[],
        );
        list(
            text,
            &[(prv::BYTES_RECEIVED, "Receive size of a collective")],
            "",
            &[],
        );
        list(text, &[(prv::ROOT, "Root of a collective")], "", &[]);
        list(
            text,
            &[(prv::COMMUNICATOR, "Communicator of a collective")],
            "",
            &[],
        );
        list(
            text,
            &[(prv::REGION, "Region")],
            "end",
            &kinds(RegionKind::ALL),
        );
        list(text, &[(prv::ITERATION, "Iteration, from 1")], "", &[]);
        let marked = [(prv::MARK, "Marked region"), (prv::POINT, "Marked point")];
        list(text, &marked, "end", &marks);
        list(text, &[(prv::LATE, "Late step: lateness in ns")], "", &[]);
        let because = [(prv::LATE_BECAUSE, "Late step: most of it by")];
        list(text, &because, "end", &numbered(&self.findings));
        let beside = [
            (prv::WHILE_LATE, "Ran while this rank was late"),
            (prv::WAIT, "Waits for this rank"),
        ];
        list(text, &beside, "end", &ranks);
        let waits = ["late sender", "late receiver", "wait at a collective"];
        let waits = waits.map(str::to_owned);
        list(
            text,
            &[(prv::WAIT_KIND, "Kind of wait")],
            "end",
            &numbered(&waits),
        );
    }
}

/// A list of types with common values; no values if `zero` is empty.
fn list(text: &mut String, types: &[(u32, &str)], zero: &str, values: &[(u64, String)]) {
    text.push_str("\n\nEVENT_TYPE\n");
    for (kind, name) in types {
        let _ = writeln!(text, "9    {kind}    {name}");
    }
    if zero.is_empty() {
        return;
    }
    let _ = writeln!(text, "VALUES\n0      {zero}");
    for (value, name) in values {
        let _ = writeln!(text, "{value}      {name}");
    }
}

fn region(kind: RegionKind) -> &'static str {
    match kind {
        RegionKind::Compute => "compute",
        RegionKind::Exchange => "exchange",
        RegionKind::Barrier => "barrier",
        RegionKind::Force => "force",
        RegionKind::Rebuild => "rebuild",
        RegionKind::Update => "update",
        RegionKind::Allreduce => "allreduce",
        RegionKind::Reduce => "reduce",
        RegionKind::Alltoall => "alltoall",
        RegionKind::Communication => "communication",
        RegionKind::RoundTrip => "round trip",
    }
}

/// CPUs in the order of their numbers in the trace.
fn cpu_names(survey: &Survey) -> Vec<String> {
    let nodes = &survey.objects.nodes;
    let of = |node: &crate::export::paraver::objects::Node| {
        let name = |cpu: &idlewave_units::Cpu| match nodes.len() {
            1 => format!("CPU {cpu}"),
            _ => format!("CPU {cpu} of {}", node.label),
        };
        node.cpus.iter().map(name).collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of).collect()
}

/// Writes the .row.
pub(super) fn rows(path: &Path, survey: &Survey, export: &mut Export) -> Result<(), ExportError> {
    let objects = &survey.objects;
    let applications = objects.applications.iter();
    let tasks = applications.clone().flat_map(|a| &a.tasks);
    let levels: [(&str, Vec<String>); 6] = [
        ("CPU", cpu_names(survey)),
        (
            "NODE",
            objects.nodes.iter().map(|n| n.label.clone()).collect(),
        ),
        ("WORKLOAD", vec!["run".to_owned()]),
        ("APPL", applications.map(|a| a.label.clone()).collect()),
        ("TASK", tasks.map(|t| t.label.clone()).collect()),
        (
            "THREAD",
            objects.threads.iter().map(|t| t.label.clone()).collect(),
        ),
    ];
    let mut text = String::new();
    for (level, names) in levels {
        let _ = writeln!(text, "LEVEL {level} SIZE {}", names.len());
        for name in names {
            let _ = writeln!(text, "{name}");
        }
        text.push('\n');
    }
    small(path, &text, export)
}
