//! What Slurm passes to a prolog or an epilog about a job.
//!
//! Source: slurm.conf(5), PROLOG AND EPILOG SCRIPTS. Only PrologSlurmctld and EpilogSlurmctld
//! receive the list of nodes.

use crate::{JobId, SlurmError};
use idlewave_sys::Uid;
use idlewave_topology::expand_hostlist;
use idlewave_units::foreign::cut;

/// Which program of slurm.conf was called, from SLURM_SCRIPT_CONTEXT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// PrologSlurmctld: once per job, before it starts, on the machine that runs slurmctld.
    PrologController,
    /// EpilogSlurmctld: once per job, after it ends, on the same machine.
    EpilogController,
    /// Prolog, on a node.
    PrologNode,
    /// Epilog, on a node.
    EpilogNode,
}

impl Moment {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "prolog_slurmctld" => Some(Moment::PrologController),
            "epilog_slurmctld" => Some(Moment::EpilogController),
            "prolog_slurmd" => Some(Moment::PrologNode),
            "epilog_slurmd" => Some(Moment::EpilogNode),
            _ => None,
        }
    }
}

/// A job, as Slurm announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The user who owns the processes of its steps.
    pub user: Uid,
    /// Its nodes in Slurm's order; `None` in Prolog and Epilog, which do not receive them.
    pub nodes: Option<Vec<String>>,
    /// The partition, if given.
    pub partition: Option<String>,
    /// Which program was called; `None` if not given, or none of these.
    pub moment: Option<Moment>,
}

impl Job {
    /// Reads the variables of a prolog or an epilog: `Job::from_environment(|name|
    /// std::env::var(name).ok())`.
    ///
    /// # Errors
    /// SLURM_JOB_ID or SLURM_JOB_UID is not set or not a number, or the list of nodes is invalid.
    pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Self, SlurmError> {
        let needed = |name| get(name).ok_or(SlurmError::Unset(name));
        let uid = needed("SLURM_JOB_UID")?;
        let user = crate::ids::digits(&uid).ok_or_else(|| SlurmError::Variable {
            name: "SLURM_JOB_UID",
            value: cut(&uid),
            wanted: "user number",
        })?;
        let nodes = get("SLURM_JOB_NODELIST").filter(|list| !list.is_empty());
        let expand = |list: String| expand_hostlist(&list).map_err(SlurmError::Nodes);
        Ok(Job {
            id: needed("SLURM_JOB_ID")?.parse()?,
            user: Uid::new(user),
            nodes: nodes.map(expand).transpose()?,
            partition: get("SLURM_JOB_PARTITION"),
            moment: get("SLURM_SCRIPT_CONTEXT").and_then(|text| Moment::parse(&text)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(variables: &[(&str, &str)]) -> Result<Job, String> {
        let get = |name: &str| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Job::from_environment(get).map_err(|e| e.to_string())
    }

    #[test]
    fn a_job_of_the_controller_has_its_nodes() {
        let job = job(&[
            ("SLURM_JOB_ID", "17"),
            ("SLURM_JOB_UID", "1000"),
            ("SLURM_JOB_NODELIST", "n[1-3,7],login"),
            ("SLURM_JOB_PARTITION", "short"),
            ("SLURM_SCRIPT_CONTEXT", "prolog_slurmctld"),
        ])
        .unwrap();
        assert_eq!((job.id.get(), job.user.get()), (17, 1000));
        let nodes = job.nodes.unwrap();
        assert_eq!(nodes, ["n1", "n2", "n3", "n7", "login"]);
        assert_eq!(job.partition.as_deref(), Some("short"));
        assert_eq!(job.moment, Some(Moment::PrologController));
    }

    #[test]
    fn on_a_node_no_nodes_are_told() {
        let job = job(&[
            ("SLURM_JOB_ID", "17"),
            ("SLURM_JOB_UID", "0"),
            ("SLURM_JOB_NODELIST", ""),
            ("SLURM_SCRIPT_CONTEXT", "epilog_slurmd"),
        ])
        .unwrap();
        assert_eq!((job.nodes, job.partition), (None, None));
        assert_eq!(job.moment, Some(Moment::EpilogNode));
    }

    #[test]
    fn every_moment_has_its_own_name() {
        for (text, moment) in [
            ("prolog_slurmctld", Some(Moment::PrologController)),
            ("epilog_slurmctld", Some(Moment::EpilogController)),
            ("prolog_slurmd", Some(Moment::PrologNode)),
            ("epilog_slurmd", Some(Moment::EpilogNode)),
            ("prolog_task", None),
        ] {
            assert_eq!(Moment::parse(text), moment);
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let id = ("SLURM_JOB_ID", "17");
        let uid = ("SLURM_JOB_UID", "1");
        for (variables, part) in [
            (vec![uid], "SLURM_JOB_ID is not set"),
            (vec![id], "SLURM_JOB_UID is not set"),
            (vec![("SLURM_JOB_ID", "0"), uid], "\"0\""),
            (vec![id, ("SLURM_JOB_UID", "-1")], "\"-1\""),
            (vec![id, uid, ("SLURM_JOB_NODELIST", "n[1-")], "\"n[1-\""),
        ] {
            let error = job(&variables).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
