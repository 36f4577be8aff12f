//! The job and step of a process, from `/proc/PID/cgroup` (cgroups(7)).
//!
//! cgroup v1 (`cgroup/v1` since Slurm 21.08, `task/cgroup` and `proctrack/cgroup` before):
//! `/slurm/uid_U/job_J/step_S/task_T`; in builds that allow several slurmd per host, as Debian's
//! does, `slurm_NODE`. The freezer's hierarchy has no `task_T`, and slurmstepd itself is in
//! `job_J` there. cgroup v2 (since Slurm 22.05):
//! `/system.slice/slurmstepd.scope/job_J/step_S/user/task_T`, with `NODE_slurmstepd.scope` in such
//! builds, `task_special` for processes that belong to no task, and slurmstepd in `step_S/slurm`.
//! In a container, other directories may precede these. Source: the page cgroup_v2 of
//! slurm.schedmd.com, and pam_slurm_adopt(8) for v1.

use crate::ids::{JobId, Step, digits};
use idlewave_sys::Uid;

/// Which side of a step a process is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A process of the user.
    User,
    /// slurmstepd, which must never be stopped.
    Slurm,
}

/// What a control group says about the processes in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The job.
    pub job: JobId,
    /// The step; `None` in the job's own group, where slurmstepd runs with cgroup v1.
    pub step: Option<Step>,
    /// Whether it is a process of the user or of Slurm.
    pub side: Side,
    /// The user of the job; only cgroup v1 gives it.
    pub user: Option<Uid>,
    /// The number of the task in its step over all nodes, as in SLURM_PROCID; `None` if Slurm
    /// makes no groups for tasks, and for `task_special`. That it is this number, not the one on
    /// the node, was observed with Slurm 22.05 and cgroup v1.
    pub task: Option<u32>,
    /// The group that holds all of the user's processes in this step and none of Slurm's, as a
    /// path within its hierarchy; with cgroup v2, Slurm itself uses it to suspend. `None` on
    /// Slurm's side.
    pub step_group: Option<String>,
}

impl Membership {
    /// Reads a `cgroup` file. `None` if the process belongs to no job. If hierarchies differ, that
    /// of the freezer counts, since Slurm tracks processes by it with cgroup v1. It has no groups
    /// for tasks, so task numbers come from the others.
    pub fn parse(text: &str) -> Option<Self> {
        let found: Vec<(bool, Self)> = text.lines().filter_map(Self::of_line).collect();
        let freezer = found.iter().find(|(freezer, _)| *freezer);
        let (_, counts) = freezer.or(found.first())?;
        let same = |m: &&Self| (m.job, m.step, m.side) == (counts.job, counts.step, counts.side);
        let of_step = found.iter().map(|(_, m)| m).filter(same);
        let task = of_step.filter_map(|m| m.task).next();
        Some(Membership {
            task,
            ..counts.clone()
        })
    }

    /// What a line says, and whether its hierarchy is the freezer of cgroup v1.
    fn of_line(line: &str) -> Option<(bool, Self)> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        match controllers {
            "" => Some((false, Self::of_v2(path)?)),
            _ => {
                let freezer = controllers.split(',').any(|c| c == "freezer");
                Some((freezer, Self::of_v1(path)?))
            }
        }
    }

    fn of_v1(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let start = parts.windows(3).position(|three| {
            (three[0] == "slurm" || three[0].starts_with("slurm_"))
                && numbered(three[1], "uid_").is_some()
                && numbered(three[2], "job_").is_some()
        })?;
        let user = numbered(parts[start + 1], "uid_").map(Uid::new);
        let job = numbered(parts[start + 2], "job_").and_then(JobId::new)?;
        let step = step(&parts, start + 3);
        Some(Membership {
            job,
            step,
            side: match step {
                Some(_) => Side::User,
                None => Side::Slurm,
            },
            user,
            task: task(&parts, start + 4),
            step_group: step.map(|_| parts[..start + 4].join("/")),
        })
    }

    fn of_v2(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let start = parts.windows(3).position(|three| {
            three[0] == "system.slice"
                && (three[1] == "slurmstepd.scope" || three[1].ends_with("_slurmstepd.scope"))
                && numbered(three[2], "job_").is_some()
        })?;
        let job = numbered(parts[start + 2], "job_").and_then(JobId::new)?;
        let step = step(&parts, start + 3);
        let users = step.is_some() && parts.get(start + 4) == Some(&"user");
        Some(Membership {
            job,
            step,
            side: match users {
                true => Side::User,
                false => Side::Slurm,
            },
            user: None,
            task: task(&parts, start + 5).filter(|_| users),
            step_group: users.then(|| parts[..start + 5].join("/")),
        })
    }
}

fn numbered(part: &str, prefix: &str) -> Option<u32> {
    part.strip_prefix(prefix).and_then(digits)
}

fn step(parts: &[&str], at: usize) -> Option<Step> {
    Step::from_name(parts.get(at)?.strip_prefix("step_")?)
}

fn task(parts: &[&str], at: usize) -> Option<u32> {
    numbered(parts.get(at)?, "task_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Job, step, side, user, task and the step's group, or `-`.
    fn told(text: &str) -> String {
        let Some(m) = Membership::parse(text) else {
            return "-".to_owned();
        };
        let or = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        format!(
            "{} {} {:?} {} {} {}",
            m.job,
            or(m.step.map(|s| s.to_string())),
            m.side,
            or(m.user.map(|u| u.to_string())),
            or(m.task.map(|t| t.to_string())),
            or(m.step_group)
        )
    }

    #[test]
    fn groups_of_all_layouts_say_whose_a_process_is() {
        const V2: &str = "/system.slice/slurmstepd.scope";
        for (text, expected) in [
            (
                format!("0::{V2}/job_42/step_0/user/task_3\n"),
                format!("42 0 User - 3 {V2}/job_42/step_0/user"),
            ),
            (
                format!("0::{V2}/job_42/step_batch/user/task_special\n"),
                format!("42 batch User - - {V2}/job_42/step_batch/user"),
            ),
            (
                format!("0::{V2}/job_42/step_1+2/user/task_0/container\n"),
                format!("42 1+2 User - 0 {V2}/job_42/step_1+2/user"),
            ),
            (
                format!("0::{V2}/job_42/step_extern/user\n"),
                format!("42 extern User - - {V2}/job_42/step_extern/user"),
            ),
            (
                format!("0::{V2}/job_42/step_0/slurm\n"),
                "42 0 Slurm - - -".to_owned(),
            ),
            (
                "0::/system.slice/n7_slurmstepd.scope/job_42/step_interactive/user/task_0\n".to_owned(),
                "42 interactive User - 0 /system.slice/n7_slurmstepd.scope/job_42/step_interactive/user".to_owned(),
            ),
            (
                "0::/pod/ab/system.slice/slurmstepd.scope/job_9/step_0/user/task_0\n".to_owned(),
                "9 0 User - 0 /pod/ab/system.slice/slurmstepd.scope/job_9/step_0/user".to_owned(),
            ),
            (
                "4:freezer:/slurm/uid_1000/job_42/step_0\n".to_owned(),
                "42 0 User 1000 - /slurm/uid_1000/job_42/step_0".to_owned(),
            ),
            (
                "4:freezer:/slurm/uid_1000/job_42\n".to_owned(),
                "42 - Slurm 1000 - -".to_owned(),
            ),
            (
                "9:cpu,cpuacct:/slurm_n7/uid_0/job_1/step_batch/task_0\n".to_owned(),
                "1 batch User 0 0 /slurm_n7/uid_0/job_1/step_batch".to_owned(),
            ),
            // The freezer decides: this is slurmstepd.
            (
                "9:memory:/slurm/uid_5/job_42/step_0/task_0\n4:freezer:/slurm/uid_5/job_42\n0::/\n".to_owned(),
                "42 - Slurm 5 - -".to_owned(),
            ),
            // Observed with Debian's Slurm 22.05.8.
            (
                "6:freezer:/slurm_n2/uid_0/job_1/step_1\n5:devices:/\n4:memory:/slurm_n2/uid_0/job_1/step_1/task_3\n\
                 2:cpuacct:/slurm_n2/uid_0/job_1/step_1/task_3\n0::/\n"
                    .to_owned(),
                "1 1 User 0 3 /slurm_n2/uid_0/job_1/step_1".to_owned(),
            ),
            (
                "9:memory:/slurm/uid_5/job_42/step_0/task_0\n4:freezer:/\n0::/\n".to_owned(),
                "42 0 User 5 0 /slurm/uid_5/job_42/step_0".to_owned(),
            ),
        ] {
            assert_eq!(told(&text), expected, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_group_of_slurm_is_none() {
        for text in [
            "",
            "0::/\n",
            "0::/system.slice/slurmd.service\n",
            "0::/system.slice/slurmstepd.scope/system\n",
            "0::/system.slice/slurmstepd.scope/job_0/step_0/user\n",
            "0::/system.slice/slurmstepd.scope/job_x/step_0/user\n",
            "0::/user.slice/slurmstepd.scope/job_1/step_0/user\n",
            "0::/system.slice/xslurmstepd.scope/job_1/step_0/user\n",
            // The layout of one cgroup version in the hierarchy of the other.
            "0::/slurm/uid_1/job_2/step_0\n",
            "4:freezer:/system.slice/slurmstepd.scope/job_1/step_0/user\n",
            "4:freezer:/slurm/job_2/step_0\n",
            "4:freezer:/slurmer/uid_1/job_2/step_0\n",
            "4:freezer\n",
        ] {
            assert_eq!(told(text), "-", "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "([0-9]:(freezer)?:|/slurm|/uid_1|/job_[0-9]|/system.slice|/slurmstepd.scope|/step_0|/user|\n){0,16}") {
            if let Some(m) = Membership::parse(&text) {
                prop_assert_eq!(m.step_group.is_some(), m.side == Side::User);
                if let Some(group) = m.step_group {
                    prop_assert!(text.contains(&group));
                }
            }
        }
    }
}
