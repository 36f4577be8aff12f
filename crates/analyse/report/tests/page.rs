//! The report page of whole runs: what its bytes hold. tests/browser checks its behaviour.

// Clippy's exception for tests does not cover the helpers of an integration test.
#![allow(clippy::unwrap_used)]

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::DeflateDecoder;
use idlewave_report::testing::{Synthetic, bare_findings};
use idlewave_report::{render_html, render_page};
use idlewave_run::findings::Findings;
use idlewave_run::tables::{RegionKind, Regions};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunReader, RunWriter, Table};
use idlewave_units::Nanos;
use serde_json::Value;
use std::io::Read;

struct Page {
    _directory: tempfile::TempDir,
    run: RunReader,
    findings: Findings,
    html: String,
}

fn page(what: &Synthetic) -> Page {
    let directory = tempfile::tempdir().unwrap();
    let (run, findings) = what.write(&directory.path().join("run")).unwrap();
    let html = render_html(&run, &findings).unwrap();
    Page {
        _directory: directory,
        run,
        findings,
        html,
    }
}

fn small() -> Synthetic {
    Synthetic {
        iterations: 3_000,
        ..Synthetic::default()
    }
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let from = text.find(begin).unwrap() + begin.len();
    &text[from..from + text[from..].find(end).unwrap()]
}

/// The script's data, unpacked as the page does.
fn drawn(html: &str) -> Value {
    let packed = STANDARD
        .decode(between(html, "id=\"drawn\">", "</script>"))
        .unwrap();
    let mut json = String::new();
    DeflateDecoder::new(&packed[..])
        .read_to_string(&mut json)
        .unwrap();
    serde_json::from_str(&json).unwrap()
}

fn list(value: &Value) -> Vec<i64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_i64().unwrap())
        .collect()
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let first = page(&small());
    assert_eq!(
        first.html,
        render_html(&first.run, &first.findings).unwrap()
    );
    let again = page(&small());
    assert!(
        first.html == again.html,
        "the page depends on more than the run"
    );
}

#[test]
fn the_page_holds_the_very_findings() {
    let page = page(&small());
    let inside: Findings =
        serde_json::from_str(between(&page.html, "id=\"findings\">", "</script>")).unwrap();
    assert_eq!(inside, page.findings);
}

#[test]
fn the_page_refers_to_nothing_outside_itself() {
    let html = page(&small()).html;
    assert!(html.contains("default-src 'none'"));
    for (at, _) in html.match_indices("http") {
        // Names in comments (a licence, a namespace) are not references.
        let before = &html[at.saturating_sub(6)..at];
        assert!(
            ["src=", "href=", "url(", "import"]
                .iter()
                .all(|r| !before.contains(r)),
            "{}",
            &html[at - 20..at + 40]
        );
    }
    assert!(!html.contains("<link rel=\"stylesheet\"") && !html.contains("<script src"));
}

#[test]
fn a_hostile_task_name_stays_text() {
    let name = "</script><img src=x onerror=alert(1)>\u{202e}\u{7}";
    let hostile = page(&Synthetic {
        culprit: name.to_owned(),
        ..small()
    })
    .html;
    let tame = page(&Synthetic {
        culprit: "iw-daemon".to_owned(),
        ..small()
    })
    .html;
    for token in ["</script", "<img", "<script"] {
        assert_eq!(
            hostile.matches(token).count(),
            tame.matches(token).count(),
            "{token}"
        );
    }
    assert!(hostile.contains("&lt;/script&gt;&lt;img"));
    assert!(!hostile.contains(['\u{202e}', '\u{7}']));
}

#[test]
fn every_late_step_has_its_window_with_exact_times() {
    let page = page(&small());
    let drawn = drawn(&page.html);
    let windows = drawn["timeline"]["windows"].as_array().unwrap();
    assert_eq!(windows.len(), page.findings.latest.len());
    for (window, late) in windows.iter().zip(&page.findings.latest) {
        let base: u64 = window["base"].as_str().unwrap().parse().unwrap();
        assert!(
            base > 1 << 53,
            "the case is meant to exceed what a double holds"
        );
        let step = list(&window["step"]);
        assert_eq!(base.wrapping_add_signed(step[0]), late.begin_ns);
        assert_eq!(base.wrapping_add_signed(step[1]), late.end_ns);
        // The compute region that ends the step is there, exact to the nanosecond.
        let regions = &window["regions"];
        let (row, what, at) = (
            list(&regions["row"]),
            list(&regions["what"]),
            list(&regions["at"]),
        );
        let (len, iteration) = (list(&regions["len"]), list(&regions["more"]));
        let found = (0..row.len()).any(|i| {
            row[i] == i64::from(late.last_rank.get())
                && what[i] == i64::from(RegionKind::Compute.code())
                && iteration[i] == late.iteration as i64
                && base.wrapping_add_signed(at[i] + len[i]) == late.end_ns
        });
        assert!(found, "{late:?}");
        assert_eq!(window["bursts"]["left_out"], 0);
    }
}

#[test]
fn the_culprit_is_drawn_where_it_struck() {
    let page = page(&small());
    let drawn = drawn(&page.html);
    let timeline = &drawn["timeline"];
    let tasks = timeline["tasks"].as_array().unwrap();
    let culprit = tasks.iter().position(|t| t["name"] == "iw-daemon").unwrap() as i64;
    // The latest step is the culprit's: 500 us plus a few per cent.
    let bursts = &timeline["windows"][0]["bursts"];
    let i = list(&bursts["what"])
        .iter()
        .position(|w| *w == culprit)
        .unwrap();
    let step = list(&timeline["windows"][0]["step"]);
    let (at, len) = (list(&bursts["at"])[i], list(&bursts["len"])[i]);
    assert!((500_000..530_000).contains(&len), "{len}");
    assert!(step[0] <= at && at + len <= step[1]);
}

#[test]
fn the_map_agrees_with_the_regions() {
    let page = page(&Synthetic {
        ranks: 3,
        iterations: 1_500,
        ..Synthetic::default()
    });
    let regions: Regions = page.run.read().unwrap();
    let maps = drawn(&page.html)["slowest"].clone();
    assert_eq!(maps.as_array().unwrap().len(), 2);
    for map in maps.as_array().unwrap() {
        let phase = map["phase"].as_u64().unwrap() as u32;
        let mut last = vec![(0, 0); 1_500];
        for r in regions
            .rows()
            .filter(|r| r.phase == phase && r.kind == RegionKind::Compute)
        {
            let known: &mut (u64, u32) = &mut last[r.iteration as usize];
            *known = (*known).max((r.end_ns, u32::MAX - r.rank.get()));
        }
        let counts = list(&map["counts"]);
        for rank in 0..3u32 {
            let expected = last.iter().filter(|l| l.1 == u32::MAX - rank).count() as i64;
            let shown: i64 = counts[rank as usize * 512..][..512].iter().sum();
            assert_eq!(shown, expected, "rank {rank} of phase {phase}");
        }
    }
}

#[test]
fn a_run_without_anything_measured_says_so_in_every_section() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    RunWriter::create(&path, empty_manifest())
        .unwrap()
        .close(None)
        .unwrap();
    let html = render_html(&RunReader::open(&path).unwrap(), &bare_findings()).unwrap();
    for said in [
        "No lockstep run was recorded",
        "Nothing was measured to predict from",
        "was not measured in this run",
        "No source was found",
        "Nothing is known to save time",
        "There is nothing to map",
        "switched off by the user",
        "Nothing is known to be lost",
        "not measured",
    ] {
        assert!(html.contains(said), "{said}");
    }
    assert!(!html.contains("<canvas") && !html.contains("data-path"));
    assert!(!html.contains("id=\"chart-"));
}

#[test]
fn one_rank_without_late_steps_is_rendered() {
    let page = page(&Synthetic {
        ranks: 1,
        ..small()
    });
    let mut findings = page.findings.clone();
    findings.latest.clear();
    findings.lateness = idlewave_units::Nanos::ZERO;
    let html = render_html(&page.run, &findings).unwrap();
    assert!(html.contains("No step was late enough"));
    assert!(html.contains("There is nothing to map"));
    assert_eq!(
        drawn(&html)["timeline"]["windows"],
        Value::Array(Vec::new())
    );
}

#[test]
fn the_page_of_a_large_run_stays_small() {
    let small = page(&small());
    let large = page(&Synthetic {
        ranks: 256,
        iterations: 300,
        ..Synthetic::default()
    });
    // The most late steps that a study lists.
    let mut findings = large.findings.clone();
    let found = findings.latest.clone();
    findings.latest = found.iter().cycle().take(100).cloned().collect();
    let html = render_html(&large.run, &findings).unwrap();
    let exact = between(&html, "id=\"findings\">", "</script>").len();
    let data = between(&html, "id=\"drawn\">", "</script>").len();
    println!("page {} bytes, findings {exact}, drawn {data}", html.len());
    assert!(small.html.len() < 425_000, "{} bytes", small.html.len());
    assert!(data < 500_000, "{data} bytes of drawings");
    assert!(html.len() < 1_400_000, "{} bytes", html.len());
    for window in drawn(&html)["timeline"]["windows"].as_array().unwrap() {
        assert!(window["ranks"].as_array().unwrap().len() <= 24);
        assert!(window["regions"]["row"].as_array().unwrap().len() <= 600);
    }
}

#[test]
fn a_damaged_table_is_an_error_and_no_page() {
    let page = page(&small());
    let file = page.run.path().join("regions.arrow");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&file, bytes).unwrap();
    let error = render_html(&page.run, &page.findings).unwrap_err();
    assert!(error.to_string().contains("regions.arrow"), "{error}");
}

/// The stories, one string per late step.
fn stories(html: &str) -> Vec<&str> {
    html.split("<article class=\"story\"")
        .skip(1)
        .map(|s| &s[..s.find("</article>").unwrap()])
        .collect()
}

#[test]
fn every_late_step_has_a_story_of_who_was_late_and_who_waited() {
    let page = page(&small());
    let stories = stories(&page.html);
    assert_eq!(stories.len(), page.findings.latest.len());
    for (story, late) in stories.iter().zip(&page.findings.latest) {
        assert!(
            story.contains(&format!("rank {}", late.last_rank)),
            "{story}"
        );
        assert!(story.contains("An undisturbed step of the "), "{story}");
        let source = &page.findings.sources[late.parts[0].source as usize];
        let named = story.contains(&source.name) || story.contains("no record names a cause");
        assert!(named, "{story}");
    }
    // The latest step: the culprit has the CPU of rank 0, and the other rank waits as long.
    let latest = &page.findings.latest[0];
    let told = stories[0].replace('\u{a0}', " ");
    assert!(told.contains("was preempted by iw-daemon"), "{told}");
    assert!(told.contains("Rank 1 waited for it, "), "{told}");
    assert!(
        told.contains(&format!("arrived {} late", latest.lateness)),
        "{told}"
    );
}

#[test]
fn a_story_says_when_nobody_can_have_waited_or_nothing_is_known() {
    let alone = page(&Synthetic {
        ranks: 1,
        ..small()
    });
    assert!(stories(&alone.html)[0].contains("no other rank that could wait"));
    // The undisturbed computation of each rank shows which ranks waited.
    let two = page(&small());
    let mut findings = two.findings.clone();
    for run in &mut findings.lockstep {
        run.compute.clear();
    }
    let html = render_html(&two.run, &findings).unwrap();
    assert!(stories(&html)[0].contains("Who waited for it is not known"));
    let mut findings = alone.findings.clone();
    findings.latest[0].parts.clear();
    findings.latest[0].iteration = u64::MAX;
    findings.lockstep.clear();
    let html = render_html(&alone.run, &findings).unwrap();
    let told = stories(&html)[0];
    assert!(
        told.contains("Nothing recorded explains the delay"),
        "{told}"
    );
    assert!(told.contains("Who waited for it is not known"), "{told}");
}

#[test]
fn a_story_counts_the_ranks_that_waited_and_those_that_hardly_did() {
    let mut page = page(&Synthetic {
        ranks: 4,
        ..small()
    });
    // A tick makes the least delayed step late, by less than a whole step.
    let late = page.findings.latest.last().unwrap().clone();
    let told = |html: &str| stories(html).last().unwrap().replace('\u{a0}', " ");
    let all = told(&page.html);
    assert!(all.contains("Ranks ") && all.contains(" each longer than usual, "));
    assert!(!all.contains("less than half"), "{all}");
    // A rank that communicates for the whole step anyway has not waited.
    let mut runs = page.findings.lockstep.iter_mut();
    let run = runs.find(|l| l.phase == late.phase).unwrap();
    run.compute[(late.last_rank.get() as usize + 1) % 4] = Nanos::from_nanos(0);
    let html = render_html(&page.run, &page.findings).unwrap();
    let told = told(&html);
    let expected = " 1 other rank waited for less than half of the delay.";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_cpu_has_the_figures_of_what_was_measured_on_it() {
    let mut page = page(&small());
    let of_detours = ["chart-lengths", "chart-spectrum"];
    let of_work = ["chart-work", "chart-speed"];
    let has =
        |html: &str, id: &str| html.contains(&format!("<div class=\"chart\" id=\"{id}\"></div><p"));
    for id in of_detours.iter().chain(&of_work) {
        assert!(has(&page.html, id), "{id}");
    }
    page.findings
        .cpus
        .iter_mut()
        .for_each(|cpu| cpu.fixed_work = None);
    let html = render_html(&page.run, &page.findings).unwrap();
    assert!(of_detours.iter().all(|id| has(&html, id)));
    assert!(!of_work.iter().any(|id| has(&html, id)));
}

#[test]
fn rates_of_detours_are_grouped_everywhere() {
    let mut page = page(&small());
    for cpu in &mut page.findings.cpus {
        cpu.detours.as_mut().unwrap().rate.value = 1_382.4;
    }
    let html = render_html(&page.run, &page.findings).unwrap();
    assert_eq!(
        html.matches(">1,382</data>").count(),
        page.findings.cpus.len() + 1
    );
    assert!(html.contains(">1,382</data> detours per second"));
    assert!(!html.contains(">1382"));
}

#[test]
fn rows_link_to_their_moments_and_hostile_names_stay_in_their_link() {
    let name = "a\"b<c>&find=x#%+\u{202e}";
    let page = page(&Synthetic {
        culprit: name.to_owned(),
        ..small()
    });
    let base: u64 = drawn(&page.html)["explorer"]["base"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    for (i, late) in page.findings.latest.iter().enumerate() {
        let row = between(&page.html, &format!("<tr data-late=\"{i}\""), "</tr>");
        let begin: u64 = between(row, "data-begin=\"", "\"").parse().unwrap();
        assert_eq!(base + begin, late.begin_ns);
        let (from, to) = between(row, "href=\"#run=", "\"").split_once("..").unwrap();
        let (from, to): (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
        assert!(
            from < begin && to > begin + (late.end_ns - late.begin_ns),
            "{row}"
        );
    }
    let link = between(&page.html, "class=\"go\" href=\"", "\"");
    assert!(
        link.ends_with("&amp;find=a%22b%3Cc%3E%26find%3Dx%23%25%2B%5Cu202e"),
        "{link}"
    );
}

#[test]
fn a_page_without_files_may_load_nothing_and_one_with_files_only_those() {
    let dir = tempfile::tempdir().unwrap();
    let what = Synthetic::default();
    let (run, findings) = what.write(&dir.path().join("run")).unwrap();
    let mut names = Vec::new();
    let mut put = |name: &str, _: &[u8]| {
        names.push(name.to_owned());
        Ok(())
    };
    let html = render_page(&run, &findings, None, Some(&mut put)).unwrap();
    assert!(!names.is_empty());
    assert!(html.contains("script-src 'unsafe-inline' 'self' file:\">"));
    let alone = render_html(&run, &findings).unwrap();
    assert!(alone.contains("script-src 'unsafe-inline'\">") && !alone.contains("file:\">"));
    assert!(alone.len() < html.len() + 1_000);
}

#[test]
fn the_page_begins_with_what_noise_is_before_any_number() {
    let html = page(&small()).html;
    let opening = html.find("id=\"noise-is\"").unwrap();
    assert!(opening < html.find("class=\"n\"").unwrap());
    let text = between(&html, "id=\"noise-is\"", "</p>");
    assert_eq!(text.matches(". ").count() + 1, 2, "{text}");
}
