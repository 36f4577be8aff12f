//! `idlewave place`: recommends a placement for a program on a network.

use super::answer::{Answer, Given};
use super::load::{effect, obtain};
use super::network::{NetworkArgs, Prepared};
use super::numbers::Numbers;
use super::scotch::{ScotchArgs, orders};
use super::subject::{Subject, SubjectArgs};
use super::{evaluate, files, sheet, text};
use crate::exit::{Exit, Failure};
use crate::files::{refuse_place, write_new};
use crate::json;
use crate::output::print;
use crate::progress::Bars;
use crate::signals::Ending;
use clap::Args;
use idlewave_place::{Advice, Advised, Job, advise, candidates_with, layouts};
use idlewave_session::{Progress, Stop};
use idlewave_units::counted;
use idlewave_units::show;
use std::path::PathBuf;

/// Options of `idlewave place` itself.
#[derive(Debug, Args)]
pub struct AdviseArgs {
    #[command(flatten, next_help_heading = "The program")]
    pub subject: SubjectArgs,
    #[command(flatten, next_help_heading = "The network")]
    pub network: NetworkArgs,
    /// Ranks per node to consider, as in 1,2,4-8 [default: 1 to the cores of a node]
    #[arg(long, value_name = "LIST", help_heading = "The search")]
    pub per_node: Option<Numbers>,
    /// Maximum number of nodes
    #[arg(long, value_name = "N", help_heading = "The search", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_nodes: Option<u32>,
    /// Seed of the search
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        help_heading = "The search"
    )]
    pub seed: u64,
    #[command(flatten, next_help_heading = "The search")]
    pub scotch: ScotchArgs,
    /// Also predict this mapping: a rank file or host file of Open MPI, MPICH or Slurm, or nodes
    /// with their ranks: "n1:0-3 n2:4-7"
    #[arg(long, value_name = "MAPPING", help_heading = "The search")]
    pub evaluate: Option<String>,
    /// New directory for the rank file, host files and job scripts
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// New file for an HTML page with the loads of the network
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Print everything as JSON instead of the table
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Runs the command.
pub fn run_advise(args: &AdviseArgs, ending: &Ending) -> Result<(), Failure> {
    refuse_places(args)?;
    args.subject.refuse_none()?;
    let scotch = args.scotch.program()?;
    let source = match &args.network.load {
        None => None,
        Some(choice) => {
            let source =
                ending.in_order(|stop| obtain(choice, args.network.load_interval, stop))?;
            // Other ranks of a job only measure.
            let Some(source) = source else { return Ok(()) };
            Some(source)
        }
    };
    let bars = Bars::new(!args.json);
    // A million nodes take a minute to read.
    bars.part("reading the network");
    let prepared = args
        .network
        .prepare(source)
        .inspect_err(|_| bars.finish())?;
    bars.part("reading the program");
    refuse_per_node(args, &prepared)?;
    let subject = subject_of(args, &prepared)?;
    let job = Job {
        ranks_per_node: args.per_node.clone().map_or_else(Vec::new, |n| n.0),
        nodes: None,
        memory_per_rank: subject.memory_per_rank,
        max_nodes: args.max_nodes,
        measured_with: subject.measured_with,
        seed: args.seed,
        ..Job::default()
    };
    // An impossible mapping is refused before the search.
    let on = idlewave_place::Subject {
        network: &prepared.network,
        program: &subject.program,
        times: subject.times,
    };
    let judged = args.evaluate.as_ref();
    let judged = judged
        .map(|m| evaluate::judge(m, &on, &job))
        .transpose()
        .inspect_err(|_| bars.finish())?;
    let (given, doubts) = judged.map_or((None, Vec::new()), |(g, doubts)| (Some(g), doubts));
    let mut outside = Vec::new();
    if let Some(scotch) = &scotch {
        bars.part("asking Scotch for orders of ranks");
        let layouts = layouts(&prepared.network, &subject.program, &job)?;
        let ask = |stop: &Stop| orders(&args.scotch, scotch, &subject.program, &layouts, stop);
        outside = ending.in_order(ask).inspect_err(|_| bars.finish())?;
    }
    let chosen = |on: &idlewave_place::Subject<'_>, also: Option<&Advice>| {
        bars.part("looking for placements");
        let mut found = candidates_with(on.network, on.program, &job, &outside)?;
        if let Some(also) = also {
            let candidate = &also.rows[also.best].candidate;
            if !found.iter().any(|other| other.places == candidate.places) {
                found.push(candidate.clone());
            }
        }
        bars.part("simulating the program on them");
        advise(on, &job, found)
    };
    let blind = match &prepared.loaded {
        None => None,
        Some(loaded) => {
            let network = &loaded.blind;
            let on = idlewave_place::Subject { network, ..on };
            Some((loaded, chosen(&on, None)?))
        }
    };
    let advice = chosen(&on, blind.as_ref().map(|(_, blind)| blind))?;
    let effect = blind
        .map(|(loaded, blind)| effect(loaded, &on, &job, &blind, &advice))
        .transpose()?;
    bars.finish();
    let remark = args.network.about_names();
    let best = &advice.rows[advice.best].candidate;
    let files = files::of(&prepared.network, best, remark.as_deref())?;
    let answer = Answer {
        what: &subject.what,
        network_in_words: &prepared.what,
        subject: &subject,
        network: &prepared.network,
        job: &job,
        advice: &advice,
        notes: [&prepared.notes[..], &subject.notes].concat(),
        warnings: [
            &prepared.warnings[..],
            &subject.warnings,
            &doubts,
            &apart(&advice, given.as_ref()),
        ]
        .concat(),
        files,
        seed: args.seed,
        scotch: scotch.is_some(),
        given,
        effect,
    };
    let sheet = sheet::of(&answer)?;
    if let Some(page) = &args.html {
        let html = idlewave_report::placement_page(&sheet);
        write_new(page, "--html", |out| out.write_all(html.as_bytes()))?;
    }
    if let Some(directory) = &args.output {
        files::write(directory, &answer.files)?;
    }
    if args.json {
        return json::print_computed(sheet::as_json(&sheet, &answer)?);
    }
    let (output, html) = (args.output.as_deref(), args.html.as_deref());
    print(&text::render(&sheet, &answer, output, html))
}

/// Refuses outputs that already exist, or that have the same path.
fn refuse_places(args: &AdviseArgs) -> Result<(), Failure> {
    if let Some(page) = &args.html {
        refuse_place(page, "--html")?;
    }
    if let Some(directory) = &args.output {
        refuse_place(directory, "-o")?;
    }
    if args.html.is_some() && args.html == args.output {
        let what = "write the page and the directory of files to the same path";
        return Err(Failure::new(Exit::Usage, what).with_next("give --html and -o different names"));
    }
    Ok(())
}

/// Refuses a list of ranks per node if no node has enough cores for any of its values.
fn refuse_per_node(args: &AdviseArgs, prepared: &Prepared) -> Result<(), Failure> {
    let (Some(numbers), Some(most)) = (&args.per_node, prepared.most_cores()) else {
        return Ok(());
    };
    if numbers.0.iter().any(|&n| n <= most) {
        return Ok(());
    }
    let what = format!(
        "place {} per node: no free node has more than {most}",
        counted(numbers.0[0], "rank"),
        most = counted(most, "core")
    );
    let next = format!("give --per-node from 1 to {most}, or more --cores");
    Err(Failure::new(Exit::Usage, what).with_next(next))
}

/// The program to place, with notes about how it is simulated.
fn subject_of(args: &AdviseArgs, prepared: &Prepared) -> Result<Subject, Failure> {
    let mut subject = args.subject.subject(&Stop::default())?;
    if args.subject.measured_with.is_some() && prepared.network.parameters().slow_down.is_empty() {
        let none = "--measured-with changes nothing: the network has no curve of slow-down";
        subject.notes.push(none.to_owned());
    }
    if subject.program.is_played_with_slack() {
        let slack = "transfers with less than 1 % left end early, together with others: times may be up to 1 % too short";
        subject.notes.push(slack.to_owned());
    }
    Ok(subject)
}

/// Warnings about times that change by more than a twentieth if ranks are not exactly in step, as
/// they never are on a real machine.
fn apart(advice: &Advice, given: Option<&Given>) -> Vec<String> {
    const MUCH: f64 = 0.05;
    let said = |(name, row): (&str, &Advised)| {
        let (together, apart) = (row.estimate.seconds.value, row.apart_seconds?);
        let factor = apart / together;
        ((factor - 1.0).abs() > MUCH && factor.is_finite()).then(|| {
            format!(
                "{name} takes {} as long if ranks start up to 1 % of its time apart: messages of different steps then share links",
                show::factor(factor)
            )
        })
    };
    let mut all = vec![("the placement to take", &advice.rows[advice.best])];
    if advice.best != advice.default {
        all.push(("the default", &advice.rows[advice.default]));
    }
    all.extend(given.map(|given| ("the mapping of --evaluate", &given.advised)));
    all.into_iter().filter_map(said).collect()
}
