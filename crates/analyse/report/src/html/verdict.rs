//! The top of the page: what the run showed, in words and four numbers, and what to do.

use super::markup::{absent, escape, number, prose, section};
use super::noise::cpu_name;
use crate::number::capitalised;
use crate::text::benchmark_sentence;
use crate::{facts, story};
use idlewave_run::Manifest;
use idlewave_run::findings::{Advice, Findings, LockstepFindings};
use idlewave_units::show::{self, count, count_f64, percent};
use idlewave_units::{counted, grouped, named};

/// Title bar with the links to the sections: their anchors and names.
pub(super) fn header(manifest: &Manifest, links: &[(&str, &str)]) -> String {
    let host = match &manifest.simulated {
        Some(_) => "simulated",
        None => manifest.nodes.first().map_or("", |n| n.host.name.as_str()),
    };
    let links: String = links
        .iter()
        .map(|(id, name)| format!("<a href=\"#{id}\">{name}</a>"))
        .collect();
    format!(
        "<header class=\"top\"><div class=\"bar\"><span class=\"brand\">idlewave</span>\
         <span class=\"run\">{} <time>{}</time></span>\
         <button id=\"theme\" type=\"button\" aria-label=\"Switch between dark and light\">Dark</button></div>\
         <nav aria-label=\"Sections\">{links}</nav></header>\n",
        escape(host),
        escape(&manifest.started),
    )
}

/// Most alarms about busy nodes; the rest is counted.
const BUSY_SHOWN: usize = 5;

/// Says of every node that others used much that they did. Findings are of the first node.
fn busy(manifest: &Manifest, findings: &Findings) -> Vec<String> {
    let said = |on: &str, share: &str| {
        format!(
            "<strong>Busy machine:</strong> others used {share} of the CPUs{on} during this run. The numbers below \
             speak of them as much as of the machine; quiet it and repeat."
        )
    };
    let several = manifest.nodes.len() > 1;
    let nodes = manifest.nodes.iter().enumerate();
    let busy = nodes.filter_map(|(place, node)| {
        let seen = match place {
            0 => &findings.contamination,
            _ => &node.contamination,
        };
        let share = seen.others.filter(|_| seen.is_flagged())?;
        let shown = match place {
            0 => number("contamination.others", share, &percent(share)),
            _ => percent(share),
        };
        let on = several.then(|| format!(" of {}", escape(&node.host.name)));
        Some(said(&on.unwrap_or_default(), &shown))
    });
    busy.collect()
}

/// The verdict: alarms first, then numbers, then sentences.
pub(super) fn verdict(manifest: &Manifest, findings: &Findings) -> String {
    let mut body = String::new();
    if let Some(simulated) = &manifest.simulated {
        body.push_str(&super::simulated::banner(simulated));
    }
    if let Some(early) = facts::early_end(manifest) {
        body.push_str(&alarm(&escape(&early)));
    }
    let all = busy(manifest, findings);
    let more = all.len().saturating_sub(BUSY_SHOWN);
    let rest =
        (more > 0).then(|| format!("Other programs kept {} busy.", counted(more, "more node")));
    for busy in all.into_iter().take(BUSY_SHOWN).chain(rest) {
        body.push_str(&alarm(&busy));
    }
    if let Some(recorded) = story::recorded(manifest) {
        body.push_str(&program(manifest, findings, &recorded));
    }
    // A recorded program has no other verdict, unless lockstep runs were measured as well.
    let own = story::recorded(manifest).is_some() || manifest.is_of_benchmarks();
    if own && findings.lockstep.is_empty() {
        for found in &findings.benchmarks {
            let sentence = format!(
                "{}: {}",
                found.sheet.benchmark,
                benchmark_sentence(&found.sheet)
            );
            body.push_str(&format!("<p>{}</p>\n", prose(&sentence)));
        }
        return section("verdict", "Verdict", &body);
    }
    body.push_str("<div class=\"tiles\">\n");
    // Turns are judged together, in a section of their own.
    let runs = match &findings.ways {
        Some(_) => &[][..],
        None => &findings.lockstep[..],
    };
    for (i, run) in runs.iter().enumerate() {
        body.push_str(&run_tile(i, run));
    }
    if let Some(share) = facts::named_share(findings) {
        let sub = format!(
            "of the lateness has a name or a class: {} of {}",
            number("named", findings.named.get(), &findings.named.to_string()),
            number(
                "lateness",
                findings.lateness.get(),
                &findings.lateness.to_string()
            ),
        );
        body.push_str(&tile("Explained", &percent(share), &sub));
    }
    body.push_str(&noise_tile(findings));
    body.push_str(&scale_tile(findings));
    body.push_str("</div>\n<div class=\"words\">\n");
    let ways = findings.ways.iter().flat_map(facts::way_sentences);
    for text in ways {
        body.push_str(&format!("<p>{}</p>\n", prose(&text)));
    }
    for run in runs {
        body.push_str(&format!(
            "<p>{}</p>\n",
            prose(&facts::lockstep_sentence(run))
        ));
    }
    let beside = match &findings.ways {
        Some(_) => None,
        None => facts::noise_beside_messages_sentence(findings),
    };
    for text in runs
        .iter()
        .filter_map(facts::slow_messages_sentence)
        .chain(beside)
    {
        body.push_str(&format!("<p>{}.</p>\n", prose(&text)));
    }
    body.push_str(&format!(
        "<p>{}</p>\n",
        prose(&facts::blame_sentence(findings))
    ));
    if let Some(text) = facts::misfit_sentence(findings) {
        body.push_str(&format!(
            "<p><strong>At scale:</strong> {}</p>\n",
            prose(&text)
        ));
    }
    match facts::scale_sentence(findings) {
        Some(text) => body.push_str(&format!("<p>{}</p>\n", prose(&text))),
        None if manifest.simulated.is_some() => {}
        None => body.push_str("<p>Nothing was measured to predict from, so there is no word on larger machines.</p>\n"),
    }
    body.push_str("</div>\n");
    section("verdict", "Verdict", &body)
}

/// The verdict on a recorded program.
fn program(manifest: &Manifest, findings: &Findings, recorded: &story::Recorded<'_>) -> String {
    let mut facts = vec![format!(
        "<code>{}</code>",
        escape(&story::own_command(manifest))
    )];
    let Some(program) = &findings.program else {
        facts.push(match recorded.library {
            None => story::imported_fact(manifest)
                .unwrap_or_else(|| "no MPI program: MPI_Init was never called".to_owned()),
            Some(library) => format!(
                "{}, but no call of it was recorded",
                escape(&story::library_name(library))
            ),
        });
        facts.extend(recorded.exit_code.map(|code| format!("exit code {code}")));
        return format!(
            "<p>{}</p>\n<div class=\"words\"><p>{}</p></div>\n",
            facts.join(", "),
            prose(&story::threads_sentence(findings))
        );
    };
    let path = |field: &str| format!("program.{field}");
    facts.push(format!(
        "{} {} on {}",
        number(&path("ranks"), program.ranks, &count(program.ranks.into())),
        named(program.ranks, "rank"),
        match manifest.nodes.len() {
            1 => "1 node".to_owned(),
            n => format!("{n} nodes"),
        }
    ));
    facts.extend(
        program
            .library
            .as_deref()
            .map(|l| escape(&story::library_name(l))),
    );
    facts.push(format!(
        "{} {}",
        number(
            &path("total"),
            program.total.get(),
            &program.total.to_string()
        ),
        story::analysed(program)
    ));
    facts.extend(recorded.exit_code.map(|code| format!("exit code {code}")));
    let error = manifest
        .nodes
        .iter()
        .filter_map(|n| n.alignment.as_ref())
        .map(|a| a.error)
        .max();
    facts.extend(error.map(|e| format!("clocks of the nodes agree within {e}")));
    let mut out = format!(
        "<p class=\"headline\">{}</p>\n<p class=\"note\">{}</p>\n<div class=\"tiles\">\n",
        prose(&story::headline(manifest, findings, program)),
        facts.join(", ")
    );
    if let Some(s) = story::shares(manifest, &program.ranks_time) {
        let waited = number(
            &path("waited"),
            program.waited.get(),
            &program.waited.to_string(),
        );
        let sub = format!("of the time of the ranks, {waited} in all, waiting for each other");
        out.push_str(&tile("Waiting", &percent(s.waiting), &sub));
        let sub = "of the time of the ranks, taken by others while they did not wait";
        out.push_str(&tile(
            "Taken",
            &s.taken.map_or_else(|| "&ndash;".to_owned(), percent),
            sub,
        ));
        let sub = format!(
            "of the time of the ranks inside {}{} not waiting",
            story::calls(program),
            // If it is unknown what took their CPUs there, that time is included.
            s.taken.map_or(",", |_| ", on a CPU and")
        );
        out.push_str(&tile("Communicating", &percent(s.communicating), &sub));
    }
    if program.waited.get() > 0 {
        let all = program.waited.as_f64();
        let sub = format!(
            "of the waiting has a name or a class: {}",
            number(
                &path("named"),
                program.named.get(),
                &program.named.to_string()
            )
        );
        out.push_str(&tile(
            "Explained",
            &percent(program.named.as_f64() / all),
            &sub,
        ));
        let sub = format!(
            "of the waiting came through other ranks (idle waves): {}",
            number(
                &path("propagated"),
                program.propagated.get(),
                &program.propagated.to_string()
            )
        );
        out.push_str(&tile(
            "Travelled",
            &percent(program.propagated.as_f64() / all),
            &sub,
        ));
    }
    out.push_str("</div>\n<div class=\"words\">\n");
    if let Some(text) = story::verdict_sentence(manifest, program) {
        out.push_str(&format!("<p>{text}</p>\n"));
    }
    if let Some(text) = story::priority_sentence(manifest, program) {
        out.push_str(&format!("<p>{}</p>\n", prose(&text)));
    }
    let longest = story::events(program);
    if let Some(event) = longest.first() {
        let text = format!(
            "The longest wait: {}.",
            story::event_sentence(manifest, findings, event)
        );
        out.push_str(&format!("<p>{}</p>\n", prose(&text)));
    }
    out.push_str("</div>\n");
    out
}

fn alarm(html: &str) -> String {
    format!("<p class=\"alarm\" role=\"alert\">{html}</p>\n")
}

fn tile(label: &str, value: &str, sub: &str) -> String {
    format!("<div class=\"tile\"><h3>{label}</h3><p class=\"big\">{value}</p><p>{sub}</p></div>\n")
}

fn run_tile(i: usize, run: &LockstepFindings) -> String {
    let path = |field: &str| format!("lockstep.{i}.{field}");
    let s = &run.slowdown;
    let end = |end| show::slowdown_beside(s.value, end);
    let value = match &run.slowdown_not_known {
        Some(_) => "not known".to_owned(),
        None => number(&path("slowdown.value"), s.value, &show::slowdown(s.value)),
    };
    let sub = format!(
        "slower than undisturbed ({} to {}); {} of {} {} late, {} {}",
        number(&path("slowdown.low"), s.low, &end(s.low)),
        number(&path("slowdown.high"), s.high, &end(s.high)),
        number(&path("late_steps"), run.late_steps, &count(run.late_steps)),
        number(&path("iterations"), run.iterations, &count(run.iterations)),
        named(run.iterations, "step"),
        number(&path("ranks"), run.ranks, &run.ranks.to_string()),
        named(run.ranks, "rank"),
    );
    tile(&escape(&capitalised(&run.name)), &value, &sub)
}

/// The CPU that lost most time.
fn noise_tile(findings: &Findings) -> String {
    let worst = findings
        .cpus
        .iter()
        .enumerate()
        .filter_map(|(i, c)| Some((i, c, c.detours.as_ref()?)))
        .max_by(|a, b| a.2.stolen.value.total_cmp(&b.2.stolen.value));
    let Some((i, cpu, d)) = worst else {
        return String::new();
    };
    let path = |field: &str| format!("cpus.{i}.detours.{field}");
    let all = match &findings.nodes {
        Some(nodes) => nodes.ranked.iter().map(|n| u64::from(n.cpus)).sum(),
        None => findings.cpus.len() as u64,
    };
    let sub = format!(
        "stolen from CPU {}, the noisiest of {}: {} detours per second",
        cpu_name(findings, cpu),
        count(all),
        number(&path("rate.value"), d.rate.value, &count_f64(d.rate.value)),
    );
    let value = number(
        &path("stolen.value"),
        d.stolen.value,
        &percent(d.stolen.value),
    );
    tile("Noise", &value, &sub)
}

fn scale_tile(findings: &Findings) -> String {
    let Some(prediction) = &findings.prediction else {
        return String::new();
    };
    let Some((topology, point)) = facts::worst_point(prediction) else {
        return String::new();
    };
    let Some(c) = prediction
        .curves
        .iter()
        .position(|c| c.topology == topology)
    else {
        return String::new();
    };
    let p = prediction.curves[c].points.len() - 1;
    let path = |field: &str| format!("prediction.curves.{c}.points.{p}.{field}");
    let value = number(
        &path("slowdown.value"),
        point.slowdown.value,
        &facts::slowdown(&point.slowdown),
    );
    let unreliable = match prediction.worst_miss() {
        Some(_) => "slower: not reliable, predicted at",
        None => "slower, predicted at",
    };
    let sub = format!(
        "{unreliable} {} {} ({})",
        number(&path("ranks"), point.ranks, &grouped(point.ranks)),
        named(point.ranks, "rank"),
        topology.label()
    );
    tile("At scale", &value, &sub)
}

/// What to do next: first what saves most, then what lets the next run show more.
pub(super) fn advice(findings: &Findings) -> String {
    let (saving, other): (Vec<&Advice>, Vec<&Advice>) =
        findings.advice.iter().partition(|a| a.saves());
    let list = |pieces: Vec<&Advice>| {
        pieces
            .into_iter()
            .map(|a| piece(findings, a))
            .collect::<String>()
    };
    let (saving, other) = (list(saving), list(other));
    let mut body = match saving.is_empty() {
        true => absent("Nothing is known to save time."),
        false => format!("<ol class=\"advice\">\n{saving}</ol>\n"),
    };
    if !other.is_empty() {
        body.push_str(&format!(
            "<h3>To see more</h3>\n<ol class=\"advice\">\n{other}</ol>\n"
        ));
    }
    section("advice", "What to do", &body)
}

fn piece(findings: &Findings, advice: &Advice) -> String {
    let saves = facts::saves(findings, advice)
        .map(|text| format!("<p class=\"gain\">{}</p>", prose(&capitalised(&text))));
    let command = advice
        .command
        .as_ref()
        .map(|c| format!("<pre><code>{}</code></pre>", escape(c)));
    format!(
        "<li><strong>{}</strong>{}<p>{}</p>{}</li>\n",
        prose(&advice.action),
        saves.unwrap_or_default(),
        prose(&advice.reason),
        command.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SyntheticProgram;
    use idlewave_run::Priority;

    #[test]
    fn the_page_names_a_rank_that_is_niced() {
        let dir = tempfile::tempdir().expect("a directory");
        let (run, findings) = SyntheticProgram::ring()
            .write(dir.path())
            .expect("a run of a ring");
        let mut manifest = run.manifest().clone();
        for sheet in &mut manifest.ranks {
            sheet.priority = Some(Priority::Nice(0));
        }
        let page = |manifest: &Manifest| {
            let recorded = story::recorded(manifest).expect("a recorded phase");
            program(manifest, &findings, &recorded)
        };
        assert!(!page(&manifest).contains("nice"));
        manifest.ranks[1].priority = Some(Priority::Nice(10));
        let html = page(&manifest);
        assert!(html.contains("the other ranks at nice"), "{html}");
    }
}
