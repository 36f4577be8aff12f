//! `idlewave place`: a program, a network, and the placement to take.

use super::network::NetworkArgs;
use super::scotch::{ScotchArgs, orders};
use super::subject::{Subject, SubjectArgs};
use super::{files, text};
use crate::exit::{Exit, Failure};
use crate::files::{refuse_place, write_new};
use crate::progress::Bars;
use crate::signals::Ending;
use clap::Args;
use idlewave_network::{Network, NetworkError};
use idlewave_place::{Advice, Job, PlaceError, advise, candidates_with, layouts};
use idlewave_recording::{Progress, Stop};
use std::path::PathBuf;

/// Options of `idlewave place` itself.
#[derive(Debug, Args)]
pub struct AdviseArgs {
    #[command(flatten, next_help_heading = "The program")]
    pub subject: SubjectArgs,
    #[command(flatten, next_help_heading = "The network")]
    pub network: NetworkArgs,
    /// Ranks per node to consider, as in 1,2,4-8 [default: all up to the cores of a node]
    #[arg(long, value_name = "LIST", help_heading = "The search")]
    pub per_node: Option<Numbers>,
    /// Most nodes to take
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
    /// New directory for rank file, host files and options of batch systems
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// New file for the page with the picture of the loads
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Print everything as JSON instead of the table
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Numbers from 1 on, from a list with ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(pub Vec<u32>);

impl std::str::FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |part: &str| format!("`{part}` is no number from 1 to 4096, as in 1,2,4-8");
        let number = |part: &str| -> Result<u32, String> {
            let number = part.trim().parse::<u32>().ok();
            number
                .filter(|n| (1..=4_096).contains(n))
                .ok_or_else(|| refused(part))
        };
        let mut all = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(format!("`{part}` goes down"));
            }
            all.extend(first..=last);
        }
        all.sort_unstable();
        all.dedup();
        Ok(Numbers(all))
    }
}

/// Everything that is shown.
pub struct Answer<'a> {
    pub what: &'a str,
    pub network_in_words: &'a str,
    pub subject: &'a Subject,
    pub network: &'a Network,
    pub job: &'a Job,
    pub advice: &'a Advice,
    /// What was assumed.
    pub notes: Vec<String>,
    /// What makes the answer doubtful.
    pub warnings: Vec<String>,
    /// Files and options for launchers, by name.
    pub files: Vec<(String, String)>,
    pub seed: u64,
    /// Whether Scotch was asked.
    pub scotch: bool,
}

/// Runs the command.
pub fn run_advise(args: &AdviseArgs, ending: &Ending) -> Result<(), Failure> {
    if let Some(page) = &args.html {
        refuse_place(page, "--html")?;
    }
    if let Some(directory) = &args.output {
        refuse_place(directory, "-o")?;
    }
    if args.html.is_some() && args.html == args.output {
        let what = "write the page and the directory with the files to one place";
        return Err(Failure::new(Exit::Usage, what).with_next("give --html and -o different names"));
    }
    args.subject.refuse_none()?;
    let scotch = args.scotch.program()?;
    let bars = Bars::new(!args.json);
    // A million nodes take a minute.
    bars.part("reading the network");
    let prepared = args.network.prepare()?;
    bars.part("reading the program");
    let most = prepared.most_cores();
    if let (Some(numbers), Some(most)) = (&args.per_node, most) {
        if numbers.0.iter().all(|&n| n > most) {
            let what = format!(
                "place {} ranks per node: no free node has more than {most} cores",
                numbers.0[0]
            );
            let next = format!("give --per-node from 1 to {most}, or more --cores");
            return Err(Failure::new(Exit::Usage, what).with_next(next));
        }
    }
    let mut subject = args.subject.subject(&Stop::default())?;
    if args.subject.measured_with.is_some() && prepared.network.parameters().slow_down.is_empty() {
        let none = "--measured-with changes nothing: the network has no curve of slow-down";
        subject.notes.push(none.to_owned());
    }
    if subject.program.is_played_with_slack() {
        let slack = "messages of which less than 1 % is left end with others: times may be as much too short";
        subject.notes.push(slack.to_owned());
    }
    let job = Job {
        ranks_per_node: args.per_node.clone().map_or_else(Vec::new, |n| n.0),
        nodes: None,
        memory_per_rank: subject.memory_per_rank,
        max_nodes: args.max_nodes,
        measured_with: subject.measured_with,
        seed: args.seed,
        ..Job::default()
    };
    let mut outside = Vec::new();
    if let Some(scotch) = &scotch {
        bars.part("asking Scotch for orders of ranks");
        let layouts = layouts(&prepared.network, &subject.program, &job).map_err(failed)?;
        let ask = |stop: &Stop| orders(&args.scotch, scotch, &subject.program, &layouts, stop);
        outside = ending.in_order(ask).inspect_err(|_| bars.finish())?;
    }
    bars.part("looking for placements");
    let found = candidates_with(&prepared.network, &subject.program, &job, &outside);
    let found = found.map_err(failed)?;
    bars.part("playing the program on them");
    let on = idlewave_place::Subject {
        network: &prepared.network,
        program: &subject.program,
        times: subject.times,
    };
    let advice = advise(&on, &job, found).map_err(failed)?;
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
        warnings: [&prepared.warnings[..], &subject.warnings, &apart(&advice)].concat(),
        files,
        seed: args.seed,
        scotch: scotch.is_some(),
    };
    let sheet = super::sheet::of(&answer)?;
    if let Some(page) = &args.html {
        let html = idlewave_report::placement_page(&sheet);
        write_new(page, "--html", |out| out.write_all(html.as_bytes()))?;
    }
    if let Some(directory) = &args.output {
        files::write(directory, &answer.files)?;
    }
    let shown = match args.json {
        true => super::sheet::as_json(&sheet, &answer)?,
        false => text::render(
            &sheet,
            &answer,
            args.output.as_deref(),
            args.html.as_deref(),
        ),
    };
    crate::print(&shown)
}

/// Times that rest on ranks being in step, as they are on no machine, longer or shorter by more than a twentieth without.
fn apart(advice: &Advice) -> Vec<String> {
    const MUCH: f64 = 0.05;
    let said = |(name, at): (&str, usize)| {
        let row = &advice.rows[at];
        let (together, apart) = (row.estimate.seconds.value, row.apart_seconds?);
        let factor = apart / together;
        ((factor - 1.0).abs() > MUCH && factor.is_finite()).then(|| {
            format!(
                "{name} takes x{factor:.2} as long where ranks begin up to 1 % of its time apart: messages of different steps then share links"
            )
        })
    };
    let both = [
        ("the placement to take", advice.best),
        ("the default", advice.default),
    ];
    let count = if advice.best == advice.default { 1 } else { 2 };
    both.into_iter().take(count).filter_map(said).collect()
}

/// What the search or the play cannot do.
pub fn failed(error: PlaceError) -> Failure {
    if let PlaceError::UnknownCores { node } = &error {
        let what = format!("place ranks on {node}: nobody says how many cores it has");
        let next = "say so with --cores, or give a file that does, such as scontrol show node";
        return Failure::new(Exit::Usage, what).with_next(next);
    }
    let next = match &error {
        PlaceError::TooFewCores { .. } => "give fewer ranks, or more nodes",
        PlaceError::Parted { .. } => {
            "give fewer ranks, or a topology with the switches that join the parts"
        }
        PlaceError::TooFewNodes { .. } => "allow more with --per-node or --max-nodes",
        PlaceError::NoNodes { .. } => "give nodes that are free, or leave out their states",
        PlaceError::Network(NetworkError::Stuck { .. }) => {
            "correct the program: `idlewave simulate goal` says what waits for what"
        }
        PlaceError::Network(NetworkError::Topology(_)) => {
            "join them, or mark the nodes of the other parts free = false: docs/topologies.md"
        }
        _ => "see idlewave place --help",
    };
    let exit = match error {
        PlaceError::Network(_) => Exit::Bundle,
        _ => Exit::Usage,
    };
    Failure::new(exit, error.to_string()).with_next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_lists_and_ranges() {
        let numbers = |text: &str| text.parse::<Numbers>().map(|n| n.0);
        assert_eq!(numbers("4-6,1,5"), Ok(vec![1, 4, 5, 6]));
        for wrong in ["", "0", "2-1", "a", "1-", "5000"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }
}
