//! Limits that a machine has to keep: options, output and exit code of the commands that have them.

use crate::exit::{Exit, Failure};
use crate::files;
use crate::json;
use crate::output::{of_bundle, printed};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use idlewave_explain::limits::{Judgement, Limit, Profile, Verdict, judge};
use idlewave_pipeline::{Analysis, PipelineError, summary};
use idlewave_report::{limits_junit, limits_text};
use idlewave_run::findings::Findings;
use idlewave_sys::terminal::Stream;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(next_help_heading = "Acceptance")]
pub struct LimitArgs {
    /// Exit with code 8 if this limit is exceeded, with 7 if the run was too short to say; several
    /// times: noise=0.1%, detour=50us, detour=50us@0.1/s, work=1%, slowdown@1e5=20%, steal=1%
    /// (docs/acceptance.md)
    #[arg(long = "limit", value_name = "LIMIT")]
    limits: Vec<Limit>,
    /// The limits of this kind of machine
    #[arg(long, value_parser = profiles(), value_name = "PROFILE")]
    profile: Option<Profile>,
    /// Write the limits as test cases of JUnit to a new file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

fn profiles() -> impl TypedValueParser<Value = Profile> {
    let names = PossibleValuesParser::new(Profile::ALL.map(Profile::name));
    names.try_map(|name| {
        let named = Profile::ALL.into_iter().find(|p| p.name() == name);
        named.ok_or("no profile has this name")
    })
}

/// Findings with their limits.
#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    findings: &'a Findings,
    limits: &'a [Judgement],
}

impl LimitArgs {
    /// Whether there is any limit.
    pub fn is_set(&self) -> bool {
        !self.limits.is_empty() || self.profile.is_some()
    }

    /// Refuses what cannot be done before anything is measured.
    pub fn check(&self) -> Result<(), Failure> {
        let Some(path) = &self.junit else {
            return Ok(());
        };
        if !self.is_set() {
            let failure = Failure::new(Exit::Usage, "write --junit without any limit");
            return Err(failure.with_next("add --limit or --profile"));
        }
        files::refuse_place(path, "--junit")
    }

    /// Prints the findings, and judges them. `advice` is what to do if a limit is exceeded.
    pub fn print(&self, analysis: &Analysis, json: bool, advice: &str) -> Result<(), Failure> {
        let mut limits = self.profile.map(Profile::limits).unwrap_or_default();
        limits.extend(&self.limits);
        if limits.is_empty() {
            return print_findings(analysis, json);
        }
        let judged = judge(&limits, &analysis.run, &analysis.findings);
        let judged = judged.map_err(PipelineError::from)?;
        if json {
            let findings = &analysis.findings;
            let limits = &judged;
            of_bundle(json::print(&Judged { findings, limits }))?;
        } else {
            print_findings(analysis, false)?;
            let (width, colour) = (Stream::Output.width(), Stream::Output.is_coloured());
            let text = limits_text(&judged, width, colour);
            of_bundle(printed(Stream::Output.write_coloured(&text)))?;
        }
        if let Some(path) = &self.junit {
            let manifest = analysis.run.manifest();
            let host = manifest.nodes.first().map_or("", |n| n.host.name.as_str());
            let text = limits_junit(&judged, host, &manifest.started);
            files::write_new(path, "--junit", |out| out.write_all(text.as_bytes()))?;
        }
        accepted(&judged, advice)
    }
}

/// Prints the findings, as text or as JSON.
fn print_findings(analysis: &Analysis, json: bool) -> Result<(), Failure> {
    if json {
        return of_bundle(json::print(&analysis.findings));
    }
    let text = summary(
        analysis,
        Stream::Output.width(),
        Stream::Output.is_coloured(),
    );
    of_bundle(printed(Stream::Output.write_coloured(&text)))
}

fn accepted(judged: &[Judgement], advice: &str) -> Result<(), Failure> {
    let of = |verdict| judged.iter().filter(move |j| j.verdict == verdict);
    let failed = of(Verdict::Fail).count();
    if failed > 0 {
        let what = format!("keep {failed} of {} limits", judged.len());
        return Err(Failure::new(Exit::Limit, what).with_next(advice));
    }
    let open = of(Verdict::TooShort).chain(of(Verdict::NotMeasured));
    if open.clone().count() == 0 {
        return Ok(());
    }
    let what = format!("decide {} of {} limits", open.clone().count(), judged.len());
    let needs = open.filter_map(|j| j.needs).max();
    let next = match needs {
        Some(needs) => format!(
            "measure for {} s or longer",
            needs.get().div_ceil(1_000_000_000)
        ),
        None => "measure longer, or what is missing".to_owned(),
    };
    Err(Failure::new(Exit::Partly, what).with_next(next))
}
