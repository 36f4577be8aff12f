//! The running jobs of Slurm and their nodes, from what its commands print.

use crate::error::LoadError;
use idlewave_topology::expand_hostlist;
use idlewave_units::foreign::{cut, misfit};
use serde::Deserialize;

/// A job that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// As Slurm writes it, such as `1234` or `1234_5`.
    pub id: String,
    /// Its nodes, by Slurm's names.
    pub nodes: Vec<String>,
}

/// Reads running jobs; the form is recognised:
///
/// - `squeue --json` or `scontrol show job --json`: an object with `jobs`, each with `job_id`,
///   `job_state` (a word, or a list of words since Slurm 23.02) and `nodes`;
/// - `scontrol show job`, with `-o` or without: `JobId=`, `JobState=` and `NodeList=`;
/// - `squeue -o "%i|%T|%N"`, with `-h` or without.
///
/// # Errors
/// Another form, or a list of nodes that is none.
pub fn read_jobs(text: &str) -> Result<Vec<RunningJob>, LoadError> {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let Some(first) = first else {
        // squeue -h prints nothing where no job runs.
        return Ok(Vec::new());
    };
    if first.trim_start().starts_with('{') {
        return json(text);
    }
    if first.contains('|') {
        return lines(text);
    }
    if first.starts_with("JobId=") {
        return records(text);
    }
    if first.trim() == "No jobs in the system" {
        return Ok(Vec::new());
    }
    Err(LoadError::Text(format!(
        "not a list of jobs that is known, which begins with {:?}",
        cut(first)
    )))
}

#[derive(Deserialize)]
struct Document {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    job_id: serde_json::Value,
    job_state: State,
    nodes: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum State {
    One(String),
    Several(Vec<String>),
}

fn json(text: &str) -> Result<Vec<RunningJob>, LoadError> {
    let document: Document =
        serde_json::from_str(text).map_err(|error| LoadError::Text(misfit(&error.to_string())))?;
    let mut all = Vec::new();
    for job in document.jobs {
        let runs = match &job.job_state {
            State::One(state) => is_running(state),
            State::Several(states) => states.iter().any(|state| is_running(state)),
        };
        let id = match job.job_id {
            serde_json::Value::String(id) => id,
            other => other.to_string(),
        };
        if let (true, Some(nodes)) = (runs, job.nodes) {
            add(&mut all, &id, &nodes)?;
        }
    }
    Ok(all)
}

/// A job that is being cleaned up may still send.
fn is_running(state: &str) -> bool {
    matches!(state, "RUNNING" | "COMPLETING" | "R" | "CG")
}

fn add(all: &mut Vec<RunningJob>, id: &str, nodes: &str) -> Result<(), LoadError> {
    if matches!(nodes, "" | "(null)" | "None" | "n/a") {
        return Ok(());
    }
    let nodes = expand_hostlist(nodes)
        .map_err(|error| LoadError::Text(format!("job {}: {error}", cut(id))))?;
    let id = id.to_owned();
    all.push(RunningJob { id, nodes });
    Ok(())
}

fn records(text: &str) -> Result<Vec<RunningJob>, LoadError> {
    let mut all = Vec::new();
    let (mut id, mut runs) = ("", false);
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("JobId", value)) => (id, runs) = (value, false),
            Some(("JobState", value)) => runs = is_running(value),
            // NodeList follows JobState; ReqNodeList and ExcNodeList are other keys.
            Some(("NodeList", value)) if runs => add(&mut all, id, value)?,
            _ => {}
        }
    }
    Ok(all)
}

fn lines(text: &str) -> Result<Vec<RunningJob>, LoadError> {
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [id, state, nodes, ..] = fields.as_slice() else {
            let why = "expected a job's number, state and nodes";
            return Err(LoadError::line(at + 1, line, why));
        };
        if is_running(state) {
            add(&mut all, id, nodes)?;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, nodes: &[&str]) -> RunningJob {
        RunningJob {
            id: id.to_owned(),
            nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
        }
    }

    #[test]
    fn the_same_jobs_are_read_from_every_form() {
        let expected = [job("12", &["n1", "n2"]), job("15_1", &["n7"])];
        let json = r#"{"meta":{},"jobs":[
            {"job_id":12,"job_state":["RUNNING"],"nodes":"n[1-2]","name":"a"},
            {"job_id":13,"job_state":"PENDING","nodes":""},
            {"job_id":"15_1","job_state":"COMPLETING","nodes":"n7"},
            {"job_id":16,"job_state":["PENDING"]}]}"#;
        let records = "JobId=12 JobName=a\n   UserId=u(1) JobState=RUNNING Reason=None\n   ReqNodeList=(null) ExcNodeList=(null)\n   NodeList=n[1-2]\n\n\
            JobId=13 JobName=b JobState=PENDING NodeList=\nJobId=15_1 JobState=COMPLETING NodeList=n7\nJobId=16 JobState=COMPLETED NodeList=n3\n";
        let lines = "JOBID|STATE|NODELIST\n12|RUNNING|n[1-2]\n13|PENDING|\n15_1|CG|n7|more\n";
        for text in [json, records, lines] {
            assert_eq!(read_jobs(text).unwrap(), expected);
        }
        assert_eq!(read_jobs("\n").unwrap(), []);
        assert_eq!(read_jobs("No jobs in the system\n").unwrap(), []);
    }

    #[test]
    fn other_text_is_refused_in_one_line() {
        for (text, said) in [
            ("hello\n", "not a list of jobs that is known"),
            ("{\"jobs\":1}", "line 1"),
            ("12|RUNNING", "line 1: expected a job's number"),
            ("12|RUNNING|n[1", "job 12: "),
        ] {
            let error = read_jobs(text).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{error}");
        }
    }
}
