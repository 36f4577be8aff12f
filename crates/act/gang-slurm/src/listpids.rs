//! Slurm's own list of the processes of a job on this node (`scontrol listpids`, scontrol(1)): a
//! cross-check for [`crate::find`].

use crate::ids::digits;
use crate::{Found, JobId, SlurmError, Step};
use idlewave_units::foreign::cut;
use idlewave_units::{Pid, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// One process, as Slurm lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The job.
    pub job: JobId,
    /// The step; `None` if this crate does not know it.
    pub step: Option<Step>,
    /// Number of the task on this node, for the first process of a task only.
    pub local: Option<u32>,
    /// Number of the task in its step over all nodes, for the first process of a task only.
    pub task: Option<Rank>,
}

/// A list of processes from scontrol. With `proctrack/linuxproc` it holds the descendants of
/// slurmstepd: neither what mpirun starts in a salloc on this node, nor slurmstepd itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPids {
    /// By process number.
    pub processes: BTreeMap<Pid, Listed>,
}

impl ListPids {
    /// Asks this program, `scontrol` by name or path, for the processes of a job. `node` is needed
    /// only if several slurmd run on one host.
    ///
    /// # Errors
    /// The program cannot be run or fails: it needs slurmd, and the rights of root or of the job's
    /// user.
    pub fn ask(scontrol: &OsStr, job: JobId, node: Option<&str>) -> Result<Self, SlurmError> {
        let failed = |why: String| SlurmError::Scontrol { job, why };
        let out = Command::new(scontrol)
            .args(["listpids", &job.to_string()])
            .args(node)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| failed(e.to_string()))?;
        if !out.status.success() {
            let words = String::from_utf8_lossy(&out.stderr);
            return Err(failed(match words.trim() {
                "" => format!("it failed with {}", out.status),
                words => cut(words),
            }));
        }
        Self::parse(&String::from_utf8_lossy(&out.stdout))
    }

    /// Reads the output of scontrol: a header, and for each process its number, job, step, and its
    /// task on the node and in the step, or `-`.
    ///
    /// # Errors
    /// A line does not name a process.
    pub fn parse(text: &str) -> Result<Self, SlurmError> {
        let mut list = ListPids::default();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with("PID") {
                continue;
            }
            let (pid, listed) = process(line).ok_or_else(|| SlurmError::Listed {
                line: number + 1,
                text: cut(line),
            })?;
            list.processes.insert(pid, listed);
        }
        Ok(list)
    }

    /// The processes that Slurm lists and [`crate::find`] does not. A process that ended in
    /// between is among them, so only one that is missing twice is really missing.
    pub fn missing_from(&self, found: &Found) -> BTreeSet<Pid> {
        let known = |pid: &Pid| {
            found.processes.contains_key(pid)
                || found.launchers.contains_key(pid)
                || found.others.contains(pid)
        };
        self.processes
            .keys()
            .filter(|p| !known(p))
            .copied()
            .collect()
    }
}

fn process(line: &str) -> Option<(Pid, Listed)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [pid, job, step, local, task] = fields.as_slice() else {
        return None;
    };
    let optional = |text: &str| match text {
        "-" => Some(None),
        _ => digits(text).map(Some),
    };
    let listed = Listed {
        job: job.parse().ok()?,
        step: Step::from_name(step).or_else(|| Step::from_variable(step)),
        local: optional(local)?,
        task: optional(task)?.map(Rank::new),
    };
    Some((Pid::new(digits(pid)?), listed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{How, Launcher, Process};

    const TEXT: &str = "\
PID      JOBID    STEPID   LOCALID GLOBALID
25658    12       0        0       3
25659    12       0        -       -
25700    12       batch    0       0
25701    12       4294967292 -     -
";

    #[test]
    fn a_list_of_scontrol_gives_step_and_task() {
        let list = ListPids::parse(TEXT).unwrap();
        let told: Vec<_> = list
            .processes
            .iter()
            .map(|(p, l)| (p.get(), l.job.get(), l.step, l.local, l.task.map(Rank::get)))
            .collect();
        assert_eq!(
            told,
            [
                (25658, 12, Some(Step::Number(0)), Some(0), Some(3)),
                (25659, 12, Some(Step::Number(0)), None, None),
                (25700, 12, Some(Step::Batch), Some(0), Some(0)),
                (25701, 12, Some(Step::Extern), None, None),
            ]
        );
    }

    #[test]
    fn a_line_that_is_no_process_is_named() {
        for line in [
            "1 2 3",
            "x 12 0 0 0",
            "1 12 0 0 x",
            "1 0 0 - -",
            "1 12 0 0 0 0",
        ] {
            let error = ListPids::parse(&format!("PID\n{line}\n")).unwrap_err();
            let words = error.to_string();
            assert!(words.contains("line 2") && words.contains(line), "{words}");
        }
    }

    #[test]
    fn what_slurm_knows_and_we_do_not_is_missing() {
        let list = ListPids::parse(TEXT).unwrap();
        let mut found = Found::default();
        let process = Process {
            start: 1,
            step: None,
            task: None,
            local: None,
            node: None,
            how: How::Parent,
        };
        found.processes.insert(Pid::new(25658), process);
        let name = "srun".to_owned();
        found.launchers.insert(Pid::new(25659), Launcher { name });
        found.others.insert(Pid::new(25701));
        let missing: Vec<u32> = list.missing_from(&found).iter().map(|p| p.get()).collect();
        assert_eq!(missing, [25700]);
    }

    #[test]
    fn a_program_that_is_not_there_or_fails_is_said() {
        let job = JobId::new(5).unwrap();
        for (program, part) in [
            ("/nonexistent/scontrol", "No such file"),
            ("false", "exit status: 1"),
        ] {
            let error = ListPids::ask(OsStr::new(program), job, None).unwrap_err();
            let words = error.to_string();
            assert!(words.contains("job 5") && words.contains(part), "{words}");
        }
    }
}
