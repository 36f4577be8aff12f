//! `idlewave measure step`: times of a computation that all ranks of any program repeat, from files
//! or runs; two are compared.

use crate::compare::print_comparison;
use crate::exit::{Exit, Failure};
use crate::explain::saved;
use crate::files::{name, read_bytes};
use crate::json::print_below;
use crate::output::printed;
use crate::progress::Bars;
use clap::Args;
use idlewave_explain::compare::Comparison;
use idlewave_formats::steps::{StepFile, StepsError, Unit, is_arrow, read_arrow, read_csv};
use idlewave_pipeline::{Steps, compare_steps, render_jitter};
use idlewave_run::findings::{JitterFindings, SourceFinding};
use idlewave_run::{Header, is_run};
use idlewave_session::Stop;
use idlewave_sys::terminal::Stream;
use idlewave_units::counted;
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest text that is read.
const MOST: usize = 1 << 30;
/// What to do about a file that is not understood.
const NEXT: &str = "docs/jitter.md describes the files: a list with the columns rank,step,duration_us, or \
                    a row per step and a column per rank";

#[derive(Debug, Args)]
pub struct StepsArgs {
    /// Text (a list or a matrix, `-` for standard input), an Arrow file, or a run; two are compared
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    inputs: Vec<PathBuf>,
    /// Unit of times whose column does not name one: ns, us, ms or s
    #[arg(long, value_name = "UNIT")]
    unit: Option<Unit>,
    /// Of runs, this computation or marked region only [default: all that all ranks repeat]
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// Print everything as JSON instead of text
    #[arg(long)]
    json: bool,
}

/// What was found of an input.
#[derive(Serialize)]
struct Input {
    /// Its path.
    input: String,
    /// Where a run comes from; `None` of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Header>,
    /// Steps of a file that not all ranks have.
    left_out: u64,
    /// The computations.
    jitter: Vec<JitterFindings>,
    /// What their culprits refer to.
    #[serde(skip)]
    sources: Vec<SourceFinding>,
}

/// The JSON document, below its header.
#[derive(Serialize)]
struct Found {
    inputs: Vec<Input>,
    /// The second input against the first; `None` of one.
    comparison: Option<Comparison>,
}

impl StepsArgs {
    /// Runs the command.
    pub fn run(&self, stop: &Stop) -> Result<(), Failure> {
        let mut inputs = Vec::new();
        let mut series = Vec::new();
        for path in &self.inputs {
            let (input, of_input) = self.read(path, stop)?;
            inputs.push(input);
            series.push(of_input);
        }
        let comparison = match &series[..] {
            [a, b] => Some(compare_steps([a, b]).ok_or_else(|| not_comparable(&inputs))?),
            _ => None,
        };
        if self.json {
            return print_below(Header::of(None), Found { inputs, comparison });
        }
        let (width, colour) = (Stream::Output.width(), Stream::Output.is_coloured());
        let mut text = String::new();
        for input in &inputs {
            text.push_str(&render_jitter(&input.jitter, &input.sources, width, colour));
            if input.left_out > 0 {
                let steps = counted(input.left_out, "step");
                text.push_str(&format!("  left out: {steps} that not all ranks have\n"));
            }
        }
        printed(Stream::Output.write_coloured(&text))?;
        match (comparison, &inputs[..]) {
            (Some(found), [a, b]) => print_comparison(&[a.input.clone(), b.input.clone()], &found),
            _ => Ok(()),
        }
    }

    fn read(
        &self,
        path: &Path,
        stop: &Stop,
    ) -> Result<(Input, Vec<idlewave_explain::StepSeries>), Failure> {
        let input = name(path);
        let (mut steps, run, left_out) = if is_run(path) {
            let bars = Bars::new(!self.json);
            let analysis = saved(path, stop, &bars);
            bars.finish();
            let analysis = analysis?;
            let header = analysis.run.manifest().header();
            (Steps::of_run(&analysis)?, Some(header), 0)
        } else {
            let file = read_file(path, self.unit, stop)?;
            let left_out = file.left_out;
            (Steps::of_file(&input, file), None, left_out)
        };
        let there: Vec<String> = steps
            .jitter
            .iter()
            .map(|found| found.name.clone())
            .collect();
        if let (Some(region), true) = (&self.region, run.is_some()) {
            steps.keep(region);
        }
        if steps.jitter.is_empty() {
            return Err(nothing(&input, &there, run.is_some()));
        }
        let found = Input {
            input,
            run,
            left_out,
            jitter: steps.jitter,
            sources: steps.sources,
        };
        Ok((found, steps.series))
    }
}

fn read_file(path: &Path, unit: Option<Unit>, stop: &Stop) -> Result<StepFile, Failure> {
    let mut begin = [0; 8];
    let arrow = path.is_file()
        && File::open(path)
            .and_then(|mut file| file.read(&mut begin))
            .is_ok()
        && is_arrow(&begin);
    let read = match arrow {
        true => read_arrow(path, unit),
        false => read_csv(&read_bytes(path, MOST, NEXT, Some(stop))?, unit),
    };
    read.map_err(|error| {
        let what = match &error {
            // It names the file.
            StepsError::Arrow(error) => error.to_string(),
            error => format!("read {}: {error}", name(path)),
        };
        Failure::new(Exit::Bundle, what).with_next(NEXT)
    })
}

fn nothing(input: &str, there: &[String], is_run: bool) -> Failure {
    if there.is_empty() {
        let what =
            format!("measure the steps of {input}: no computation that all ranks repeat took time");
        let next = match is_run {
            true => {
                "mark a region of the program that every rank enters in every step: docs/regions.md"
            }
            false => NEXT,
        };
        return Failure::new(Exit::Usage, what).with_next(next);
    }
    let what = format!("measure the steps of {input}: it has no such region");
    Failure::new(Exit::Usage, what).with_next(format!("choose one of: {}", there.join(", ")))
}

fn not_comparable(inputs: &[Input]) -> Failure {
    let all = inputs.iter().map(|input| {
        let each = input.jitter.iter().map(|found| {
            let (ranks, steps) = (counted(found.ranks, "rank"), counted(found.steps, "step"));
            format!("{} of {ranks} and {steps}", found.name)
        });
        each.collect::<Vec<_>>().join(", ")
    });
    let what = format!(
        "compare the steps: {}",
        all.collect::<Vec<_>>().join(" against ")
    );
    Failure::new(Exit::Usage, what)
        .with_next("compare computations of as many ranks, with at least four steps each; of runs choose one with --region")
}
