//! Recorded MPI programs: their summary and the bytes of their page.

// Clippy's exception for tests does not cover the helpers of an integration test.
#![allow(clippy::unwrap_used)]

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::DeflateDecoder;
use idlewave_explain::catalog::LONG_CALLS;
use idlewave_report::testing::{Delay, Pattern, Planted, SyntheticProgram, bare_findings};
use idlewave_report::{render_calls, render_html, render_text};
use idlewave_run::findings::{Findings, OperationFinding, PathFinding, ProgramFindings};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    Manifest, Phase, PhaseKind, Priority, RunReader, RunWriter, SourceKind, TraceMode,
};
use idlewave_units::Nanos;
use proptest::prelude::*;
use serde_json::Value;
use std::io::Read;
use std::sync::OnceLock;

struct Written {
    _directory: tempfile::TempDir,
    run: RunReader,
    findings: Findings,
}

fn written(what: &SyntheticProgram) -> Written {
    let directory = tempfile::tempdir().unwrap();
    let (run, findings) = what.write(&directory.path().join("run")).unwrap();
    Written {
        _directory: directory,
        run,
        findings,
    }
}

fn ring() -> &'static Written {
    static RUN: OnceLock<Written> = OnceLock::new();
    RUN.get_or_init(|| written(&SyntheticProgram::ring()))
}

fn barrier() -> &'static Written {
    static RUN: OnceLock<Written> = OnceLock::new();
    RUN.get_or_init(|| written(&SyntheticProgram::barrier()))
}

impl Written {
    fn text(&self) -> String {
        render_text(self.run.manifest(), &self.findings, 80, false)
    }

    fn page(&self) -> String {
        render_html(&self.run, &self.findings).unwrap()
    }
}

/// The text without line breaks.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn found(findings: &Findings) -> &ProgramFindings {
    findings.program.as_ref().unwrap()
}

/// The timeline of ranks, unpacked as the page does.
fn lanes(html: &str) -> Value {
    let begin = html.find("id=\"drawn\">").unwrap() + 11;
    let end = begin + html[begin..].find("</script>").unwrap();
    let packed = STANDARD.decode(&html[begin..end]).unwrap();
    let mut json = String::new();
    DeflateDecoder::new(&packed[..])
        .read_to_string(&mut json)
        .unwrap();
    let drawn: Value = serde_json::from_str(&json).unwrap();
    drawn["lanes"].clone()
}

fn list(value: &Value) -> Vec<i64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_i64().unwrap())
        .collect()
}

/// Pieces as (row, what, start, length).
fn pieces(value: &Value) -> Vec<(i64, i64, i64, i64)> {
    let (row, what) = (list(&value["row"]), list(&value["what"]));
    let (at, len) = (list(&value["at"]), list(&value["len"]));
    (0..row.len())
        .map(|i| (row[i], what[i], at[i], len[i]))
        .collect()
}

#[test]
fn the_summaries_are_those_checked_by_eye() {
    for (name, run) in [("barrier", barrier()), ("ring", ring())] {
        let shown = run.text();
        let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("IDLEWAVE_BLESS").is_some() {
            std::fs::write(&path, &shown).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            shown, expected,
            "{name}: IDLEWAVE_BLESS=1 rewrites it; then look at it"
        );
        assert!(shown.lines().all(|l| l.len() <= 80 && l.is_ascii()));
    }
}

#[test]
fn the_headline_names_the_culprit_its_rank_and_its_share_of_the_waiting() {
    // 400 us of a task on rank 5: its share of all waiting, summed from the table itself.
    let parts: idlewave_run::tables::WaitParts = {
        let parts = ring().run.read();
        parts.unwrap()
    };
    let waited: u64 = parts.time.iter().map(|t| t.get()).sum();
    let charged: u64 = (0..parts.wait.len())
        .filter(|&i| parts.finding[i] == 0)
        .map(|i| parts.time[i].get())
        .sum();
    assert_eq!(waited, found(&ring().findings).waited.get());
    let share = format!("{:.1} %", charged as f64 / waited as f64 * 100.0);
    let sentence = format!("iw-daemon (task) held back rank 5 on n1: {share} of all waiting.");
    assert!(
        ring().text().contains(&sentence),
        "{sentence}\n{}",
        ring().text()
    );
    assert!(ring().page().replace('\u{a0}', " ").contains(&sentence));
}

#[test]
fn long_calls_are_blamed_on_nothing_that_was_not_recorded() {
    let mut findings = ring().findings.clone();
    findings.sources[0].kind = SourceKind::Network;
    findings.sources[0].name = LONG_CALLS.to_owned();
    let mut manifest = ring().run.manifest().clone();
    manifest.tables.clear();
    let (text, html) = both(manifest, &findings);
    for shown in [flat(&text), html.replace('\u{a0}', " ")] {
        assert!(
            shown.contains("Calls took long although nobody came late: "),
            "{shown}"
        );
        assert!(
            shown.contains("was there in time, but its call took long"),
            "{shown}"
        );
        for claim in ["Messages themselves", "shared memory took", "(network)"] {
            assert!(!shown.contains(claim), "{claim}: {shown}");
        }
    }
}

#[test]
fn a_rank_with_more_to_compute_is_told_from_a_rank_that_was_held_back() {
    let mut what = SyntheticProgram::barrier();
    what.delays = vec![Delay {
        rank: 3,
        iteration: 7,
        length_ns: 80_000,
        by: Planted::Imbalance,
    }];
    what.iterations = 20;
    let shown = flat(&written(&what).text());
    assert!(
        shown.contains("Rank 3 has more to compute than the others: 100 % of all waiting."),
        "{shown}"
    );
    assert!(
        shown.contains("for rank 3, which had more to compute"),
        "{shown}"
    );
}

#[test]
fn three_ranks_that_wait_for_the_fourth_are_one_line() {
    let text = barrier().text();
    let line = "ranks 0, 1 and 3 waited up to 47.0 us in MPI_Barrier for rank 2, which was preempted by iw-daemon (47.0 us)";
    assert!(flat(&text).contains(line), "{text}");
    // Twelve delays give twelve lines to choose from.
    assert_eq!(barrier().page().matches("<tr data-wait=").count(), 12);
}

#[test]
fn every_rank_has_a_row_and_every_listed_wait_its_exact_place() {
    let html = barrier().page();
    let lanes = lanes(&html);
    let base: u64 = lanes["base"].as_str().unwrap().parse().unwrap();
    assert!(
        base >= 1 << 53,
        "the case is meant to exceed what a double holds"
    );
    assert_eq!(lanes["rows"].as_array().unwrap().len(), 4);
    let focus = lanes["waits"].as_array().unwrap();
    let latest = &found(&barrier().findings).latest;
    assert_eq!(focus.len(), latest.len());
    let window = &lanes["windows"][0];
    let (waits, bursts) = (pieces(&window["waits"]), pieces(&window["bursts"]));
    let tasks = lanes["tasks"].as_array().unwrap();
    for (f, late) in focus.iter().zip(latest) {
        let (begin, end) = (f["begin"].as_i64().unwrap(), f["end"].as_i64().unwrap());
        assert_eq!(base.wrapping_add_signed(begin), late.begin_ns);
        assert_eq!(base.wrapping_add_signed(end), late.end_ns);
        let rank = i64::from(late.rank.get());
        let culprit = i64::from(late.culprit.get());
        assert!(
            waits.contains(&(rank, culprit, begin, end - begin)),
            "{late:?}"
        );
        // What took the late rank's CPU is in that rank's row, before the end of the wait and
        // within the interval shown.
        let taken = bursts.iter().find(|b| {
            b.0 == culprit
                && tasks[b.1 as usize]["name"] == "iw-daemon"
                && b.2 < end
                && b.2 + b.3 > f["from"].as_i64().unwrap()
        });
        let length = taken.unwrap_or_else(|| panic!("{late:?}")).3;
        assert!(length >= late.parts[0].time.get() as i64);
    }
}

#[test]
fn the_bins_hold_the_time_that_the_findings_name() {
    let lanes = lanes(&ring().page());
    let (bins, span) = (
        lanes["bins"].as_u64().unwrap() as usize,
        lanes["span"].as_f64().unwrap(),
    );
    let layers: Vec<Vec<u8>> = lanes["layers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| STANDARD.decode(l.as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(layers.len(), 6);
    let time = |layer: usize, row: usize| {
        let bytes = &layers[layer][row * bins..(row + 1) * bins];
        bytes.iter().map(|b| f64::from(*b)).sum::<f64>() / 255.0 * span / bins as f64
    };
    for (row, rank) in found(&ring().findings).ranks_time.iter().enumerate() {
        // Every bin is at least 1 of 255, so short things may look longer, but never by much.
        let waiting = time(4, row);
        assert!(
            (waiting - rank.waiting.as_f64()).abs() < 0.02 * span.min(1e6),
            "rank {row}: {waiting}"
        );
        // Ticks (3 us every 4 ms) are taken as well as the planted delays.
        let taken = time(5, row);
        assert!(
            taken >= rank.taken.as_f64() * 0.99 && taken < rank.taken.as_f64() + 60_000.0,
            "rank {row}: {taken}"
        );
    }
}

#[test]
fn a_run_of_many_ranks_and_calls_stays_small_and_keeps_the_ranks_that_matter() {
    let what = SyntheticProgram {
        ranks: 200,
        nodes: 4,
        iterations: 150,
        delays: vec![
            Delay {
                rank: 77,
                iteration: 20,
                length_ns: 300_000,
                by: Planted::Task,
            },
            Delay {
                rank: 131,
                iteration: 90,
                length_ns: 200_000,
                by: Planted::Irq,
            },
        ],
        ..SyntheticProgram::ring()
    };
    let run = written(&what);
    let html = run.page();
    let lanes = lanes(&html);
    let ranks: Vec<u64> = lanes["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["rank"].as_u64().unwrap())
        .collect();
    assert!(
        ranks.len() <= 48 && ranks.contains(&77) && ranks.contains(&131),
        "{ranks:?}"
    );
    // The rank that waited longest, the rank it waited for, and the origin of the wait.
    let longest = &found(&run.findings).latest[0];
    for rank in [longest.rank, longest.culprit, longest.origin] {
        assert!(
            ranks.contains(&u64::from(rank.get())),
            "{rank} of {ranks:?}"
        );
    }
    println!("page {} bytes", html.len());
    assert!(html.len() < 1_500_000, "{} bytes", html.len());
    // 150,000 calls: windows around the waits, not one window of everything.
    let windows = lanes["windows"].as_array().unwrap();
    let calls: usize = windows
        .iter()
        .map(|w| w["calls"]["row"].as_array().unwrap().len())
        .sum();
    assert!(!windows.is_empty() && calls <= 24_000, "{calls}");
    // At most 64 rows of ranks, 8 on the terminal.
    assert_eq!(html.matches("program.ranks_time.").count(), 64 * 5);
    assert!(run.text().contains("192 more: computing"), "{}", run.text());
    assert!(
        run.text()
            .contains("and 1 more nodes, clock error 2.60 us at most"),
        "{}",
        run.text()
    );
}

#[test]
fn hostile_names_of_functions_regions_and_nodes_stay_text() {
    let directory = tempfile::tempdir().unwrap();
    let what = SyntheticProgram {
        culprit: "</script><b>\u{202e}\x1b[2J".to_owned(),
        iterations: 100,
        ..SyntheticProgram::ring()
    };
    let (run, mut findings) = what.write(&directory.path().join("run")).unwrap();
    let hostile = "<img src=x onerror=alert(1)>\u{7}";
    let program = findings.program.as_mut().unwrap();
    program.library = Some(hostile.to_owned());
    program.operations[0].name = hostile.to_owned();
    program.waits[0].name = hostile.to_owned();
    program.marks[0].name = hostile.to_owned();
    program
        .latest
        .iter_mut()
        .for_each(|w| w.operation = hostile.to_owned());
    let html = render_html(&run, &findings).unwrap();
    assert!(
        !html.contains("<img") && !html.contains("</script><b>"),
        "markup"
    );
    assert!(!html.contains(['\u{202e}', '\u{7}', '\x1b']));
    let text = render_text(run.manifest(), &findings, 80, false);
    assert!(
        text.bytes()
            .all(|b| b == b'\n' || (b' '..=b'~').contains(&b)),
        "{text}"
    );
}

fn recorded(library: Option<&str>) -> Manifest {
    let mut manifest = empty_manifest();
    manifest.command = ["idlewave", "record", "--", "sleep", "1"]
        .map(str::to_owned)
        .into();
    manifest.phases = vec![Phase {
        kind: PhaseKind::Recorded {
            library: library.map(str::to_owned),
            exit_code: Some(3),
        },
        begin_ns: 1,
        end_ns: 2_000_000_001,
    }];
    manifest
}

fn both(manifest: Manifest, findings: &Findings) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    RunWriter::create(&path, manifest)
        .unwrap()
        .close(None)
        .unwrap();
    let run = RunReader::open(&path).unwrap();
    let html = render_html(&run, findings).unwrap();
    (render_text(run.manifest(), findings, 80, false), html)
}

#[test]
fn a_program_without_mpi_is_told_what_kept_its_threads_from_running() {
    let mut findings = bare_findings();
    let (text, html) = both(recorded(None), &findings);
    for said in [
        "PROGRAM sleep 1",
        "no MPI program, recorded for 2.00 s, exit code 3",
        "No record shows its threads kept from running.",
    ] {
        assert!(text.contains(said), "{said} is missing in\n{text}");
    }
    assert!(html.contains("no MPI program: MPI_Init was never called"));
    findings.sources = ring().findings.sources.clone();
    let (text, html) = both(recorded(None), &findings);
    let sentence = "What kept its threads from running most: iw-daemon (task) (400 us).";
    assert!(
        text.contains(sentence) && text.contains("WHO TAKES TIME"),
        "{text}"
    );
    assert!(html.replace('\u{a0}', " ").contains(sentence));
    // What a recording never measures is not called missing.
    for absent in ["LOCKSTEP", "NOISE OF EVERY CPU", "AT SCALE"] {
        assert!(!text.contains(absent), "{text}");
    }
}

#[test]
fn calls_of_another_library_are_not_called_mpi() {
    let run = barrier();
    let words = |findings: &Findings| {
        let page = render_html(&run.run, findings).unwrap();
        let (words, _scripts) = page.split_once("<script").unwrap();
        (
            render_text(run.run.manifest(), findings, 80, false),
            words.to_owned(),
        )
    };
    let (text, page) = words(&run.findings);
    assert!(text.contains("TIME IN MPI"), "{text}");
    for said in [
        "Time in MPI</",
        "Outside of MPI, on a CPU",
        "In MPI_COMM_WORLD",
        "inside MPI, on a CPU",
        "stand under Time in MPI",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let all = serde_json::to_string(&run.findings).unwrap();
    let mut findings: Findings = serde_json::from_str(&all.replace("MPI_", "gloo:")).unwrap();
    findings.program.as_mut().unwrap().library = Some("gloo".to_owned());
    let (text, page) = words(&findings);
    assert!(text.contains("TIME IN COLLECTIVES AND MESSAGES"), "{text}");
    assert!(page.contains("Time in collectives and messages</"));
    let at = page
        .find("MPI")
        .map(|at| &page[at.saturating_sub(80)..at + 20]);
    assert_eq!(at, None);
}

#[test]
fn what_is_empty_says_why_and_what_to_do() {
    let mut findings = bare_findings();
    findings.program = Some(ProgramFindings {
        library: None,
        ranks: 2,
        total: Nanos::ZERO,
        ranks_time: Vec::new(),
        operations: Vec::new(),
        message_bytes: 0,
        messages: 0,
        matrix: Vec::new(),
        waits: Vec::new(),
        waited: Nanos::ZERO,
        named: Nanos::ZERO,
        propagated: Nanos::ZERO,
        latest: Vec::new(),
        waves: Vec::new(),
        path: PathFinding::default(),
        marks: Vec::new(),
    });
    let (text, html) = both(recorded(Some("Open MPI v4.1.4")), &findings);
    for said in [
        "No rank waited for another one.",
        "not known: no rank came from MPI_Init",
        "nothing: no rank waited",
    ] {
        assert!(text.contains(said), "{said} is missing in\n{text}");
    }
    for said in [
        "No rank came from MPI_Init to MPI_Finalize",
        "No rank waited for another one long enough",
        "No delay went on from rank to rank",
        "No call of MPI was recorded",
        "No point-to-point message was recorded",
        "The program marked no region",
    ] {
        assert!(html.contains(said), "{said}");
    }
    assert!(!text.contains("0 %"), "{text}");
}

#[test]
fn what_was_taken_is_a_dash_where_the_kernel_was_not_recorded() {
    let findings = &barrier().findings;
    let mut manifest = barrier().run.manifest().clone();
    manifest.tables.clear();
    for (mode, seen) in [
        (TraceMode::Tracefs, true),
        (TraceMode::PerfSwitch, true),
        (TraceMode::Counters, false),
        (TraceMode::Off, false),
    ] {
        manifest.nodes[0].trace.mode = mode;
        let (text, html) = both(manifest.clone(), findings);
        let text = flat(&text);
        assert_eq!(text.contains("was taken from them."), seen, "{text}");
        assert_eq!(
            text.contains("what was taken from them was not recorded, and is among these."),
            !seen
        );
        // Rank 3: nothing was taken from it, or that is unknown.
        assert_eq!(text.contains("3 97.6 % 0 % 0.42 %"), seen, "{text}");
        assert_eq!(text.contains("3 97.6 % - 0.42 %"), !seen, "{text}");
        assert_eq!(text.contains("hardly anything was taken"), seen);
        assert_eq!(html.contains("program.ranks_time.3.taken"), seen);
        assert_eq!(html.contains("inside MPI, on a CPU and not waiting"), seen);
        assert_eq!(html.contains("inside MPI, not waiting"), !seen);
        assert_eq!(
            html.contains("<h3>Taken</h3><p class=\"big\">&ndash;</p>"),
            !seen
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_line_is_wider_than_asked_for(width in 20usize..160, name in ".{0,60}") {
        let mut findings = ring().findings.clone();
        findings.sources[0].name = name.clone();
        let program = findings.program.as_mut().unwrap();
        program.operations[0].name = name.clone();
        program.marks[0].name = name.clone();
        program.waits[0].name = name;
        for line in render_text(ring().run.manifest(), &findings, width, false).lines() {
            prop_assert!(line.len() <= width && line.is_ascii(), "{line:?}");
        }
    }

    #[test]
    fn every_wait_is_in_exactly_one_line_whatever_the_order_of_ranks(keep in proptest::collection::vec(any::<bool>(), 36)) {
        // The page lists events; each line says how many ranks waited.
        let mut findings = barrier().findings.clone();
        let program = findings.program.as_mut().unwrap();
        let mut flags = keep.iter();
        program.latest.retain(|_| *flags.next().unwrap_or(&true));
        let html = render_html(&barrier().run, &findings).unwrap();
        let ends: std::collections::BTreeSet<_> =
            findings.program.as_ref().unwrap().latest.iter().map(|w| (w.culprit, w.end_ns)).collect();
        prop_assert_eq!(html.matches("<tr data-wait=").count(), ends.len());
    }
}

#[test]
fn a_pattern_in_which_all_wait_for_all_has_no_wave() {
    assert_eq!(SyntheticProgram::barrier().pattern, Pattern::Barrier);
    assert!(found(&barrier().findings).waves.is_empty());
    assert!(
        barrier()
            .page()
            .contains("No delay went on from rank to rank")
    );
    assert_eq!(found(&ring().findings).waves.len(), 2);
}

#[test]
fn of_several_nodes_the_busy_one_is_named_in_summary_and_page() {
    let ring = ring();
    let shown = |others| {
        let mut manifest = ring.run.manifest().clone();
        let mut second = manifest.nodes[0].clone();
        second.host.name = "second".to_owned();
        second.contamination.wall = Nanos::from_secs(10);
        second.contamination.others = Some(others);
        manifest.nodes.truncate(1);
        manifest.tables.clear();
        manifest.nodes.push(second);
        let (text, page) = both(manifest, &ring.findings);
        (flat(&text), page.replace('\u{a0}', " "))
    };
    let (text, page) = shown(0.01);
    assert!(!text.contains("second: BUSY") && !page.contains("of the CPUs of second"));
    let (text, page) = shown(0.5);
    let said = "! second: BUSY MACHINE: others used 50.0 % of the CPUs";
    assert!(text.contains(said), "{text}");
    assert!(page.contains("others used 50.0 % of the CPUs of second during"));
}

#[test]
fn all_functions_are_told_with_exact_bytes_however_many_they_are() {
    let mut findings = ring().findings.clone();
    let program = findings.program.as_mut().unwrap();
    let first = program.operations[0].clone();
    program.operations = (0..20)
        .map(|n| OperationFinding {
            name: format!("MPI_Function_{n}"),
            bytes: 1_234_567 + n,
            calls: 70_673,
            ..first.clone()
        })
        .collect();
    let manifest = ring().run.manifest().clone();
    let text = render_calls(&manifest, &findings);
    assert_eq!(text.lines().count(), 21, "{text}");
    let last = text.lines().last().unwrap();
    let words: Vec<&str> = last.split_whitespace().collect();
    assert_eq!(words[..3], ["MPI_Function_19", "70673", "1234586"]);
    // Columns as wide as their longest entries, so that all lines end at the same place.
    let ends: Vec<usize> = text.lines().map(str::len).collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "{text}");
    findings.contamination.wall = Nanos::from_secs(10);
    findings.contamination.others = Some(0.5);
    let text = render_calls(&manifest, &findings);
    let busy = text
        .lines()
        .filter(|l| l.contains("BUSY MACHINE: others used 50.0 %"));
    assert_eq!(busy.count(), 1, "{text}");
    findings.program = None;
    assert!(render_calls(&manifest, &findings).starts_with("no call"));
}

#[test]
fn a_rank_that_is_niced_is_named_with_what_was_taken_from_it() {
    let ring = ring();
    let said = |priorities: &[Priority]| {
        let mut manifest = ring.run.manifest().clone();
        for (sheet, priority) in manifest.ranks.iter_mut().zip(priorities.iter().cycle()) {
            sheet.priority = Some(*priority);
        }
        flat(&render_text(&manifest, &ring.findings, 80, false))
    };
    let mut one = vec![Priority::Nice(0); ring.run.manifest().ranks.len()];
    assert!(!said(&one).contains("ran at"));
    one[1] = Priority::Nice(10);
    let text = said(&one);
    let words = "Rank 1 ran at nice 10, the other ranks at nice 0: the kernel does not treat them alike. It was taken off its CPU for ";
    assert!(text.contains(words), "{text}");
    let text = said(&[Priority::Batch(5)]);
    assert!(
        text.contains("All ranks ran at nice 5 of the batch class"),
        "{text}"
    );
}
