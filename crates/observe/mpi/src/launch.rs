//! Who launched this process, from the environment that launchers set.
//!
//! This is known before `MPI_Init`, even in processes that never call it. Each launcher has its own
//! variables; the innermost launcher wins: an `mpirun` inside a Slurm allocation leaves Slurm's
//! variables in place.

use crate::MpiError;
use crate::abi::Family;

/// A kind of launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `mpirun` of Open MPI (ORTE or PRRTE).
    OpenMpi,
    /// Hydra, the `mpiexec` of MPICH and Intel MPI.
    Hydra,
    /// `srun` of Slurm.
    Slurm,
    /// `mpiexec` of PALS (HPE Cray).
    Pals,
    /// Another one that speaks PMI.
    Pmi,
    /// Another one that speaks PMIx.
    Pmix,
}

impl Launcher {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "mpirun of Open MPI",
            Self::Hydra => "mpiexec of MPICH (Hydra)",
            Self::Slurm => "srun",
            Self::Pals => "mpiexec of PALS",
            Self::Pmi => "a launcher that speaks PMI",
            Self::Pmix => "a launcher that speaks PMIx",
        }
    }

    /// The family of its library, if there is only one.
    pub const fn family(self) -> Option<Family> {
        match self {
            Self::OpenMpi => Some(Family::OpenMpi),
            Self::Hydra | Self::Pals => Some(Family::Mpich),
            Self::Slurm | Self::Pmi | Self::Pmix => None,
        }
    }
}

/// What a launcher says about one of its processes; `None` for what it does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The launcher.
    pub launcher: Launcher,
    /// Rank among all processes.
    pub rank: u32,
    /// Number of processes.
    pub size: Option<u32>,
    /// Rank among the processes on this node.
    pub local_rank: Option<u32>,
    /// Number of processes on this node.
    pub local_size: Option<u32>,
    /// Index of the node.
    pub node: Option<u32>,
    /// Name of the node.
    pub node_name: Option<String>,
}

impl Launch {
    /// What the environment of this process says; `None` if no launcher started it.
    pub fn of_this_process() -> Option<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// What an environment says; `variable` looks up one variable.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u32>().ok());
        let any = |names: &[&str]| names.iter().find_map(|name| number(name));
        let node_name = [
            "SLURMD_NODENAME",
            "PMIX_HOSTNAME",
            "PMI_HOSTNAME",
            "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
        ];
        let base = |launcher, rank| Self {
            launcher,
            rank,
            size: None,
            local_rank: None,
            local_size: None,
            node: None,
            node_name: node_name.iter().find_map(|name| variable(name)),
        };
        if let Some(rank) = number("OMPI_COMM_WORLD_RANK") {
            return Some(Self {
                size: number("OMPI_COMM_WORLD_SIZE"),
                local_rank: number("OMPI_COMM_WORLD_LOCAL_RANK"),
                local_size: number("OMPI_COMM_WORLD_LOCAL_SIZE"),
                node_name: variable("PMIX_HOSTNAME"),
                ..base(Launcher::OpenMpi, rank)
            });
        }
        if let (Some(rank), Some(local)) = (number("PMI_RANK"), number("MPI_LOCALRANKID")) {
            return Some(Self {
                size: number("PMI_SIZE"),
                local_rank: Some(local),
                local_size: number("MPI_LOCALNRANKS"),
                node_name: node_name[2..].iter().find_map(|name| variable(name)),
                ..base(Launcher::Hydra, rank)
            });
        }
        // A batch script has SLURM_PROCID as well, but no step; the shell of salloc has a step that
        // Slurm made itself (above SLURM_MAX_NORMAL_STEP_ID of slurm.h), which launched nothing.
        let step = number("SLURM_STEP_ID").filter(|step| *step <= 0xffff_fff0);
        if let (Some(rank), Some(_)) = (number("SLURM_PROCID"), step) {
            let node = number("SLURM_NODEID");
            let per_node = variable("SLURM_STEP_TASKS_PER_NODE");
            return Some(Self {
                size: any(&["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]),
                local_rank: number("SLURM_LOCALID"),
                local_size: node
                    .zip(per_node)
                    .and_then(|(node, text)| tasks_of(&text, node)),
                node,
                ..base(Launcher::Slurm, rank)
            });
        }
        if let Some(rank) = number("PALS_RANKID") {
            return Some(Self {
                size: any(&["PALS_SIZE", "PMI_SIZE"]),
                local_rank: any(&["PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"]),
                local_size: any(&["PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"]),
                node: number("PALS_NODEID"),
                ..base(Launcher::Pals, rank)
            });
        }
        if let Some(rank) = number("PMI_RANK") {
            return Some(Self {
                size: number("PMI_SIZE"),
                local_rank: any(&["PMI_LOCAL_RANK", "MPI_LOCALRANKID"]),
                local_size: any(&["PMI_LOCAL_SIZE", "MPI_LOCALNRANKS"]),
                ..base(Launcher::Pmi, rank)
            });
        }
        number("PMIX_RANK").map(|rank| base(Launcher::Pmix, rank))
    }

    /// Checks the number of ranks that `MPI_Comm_size` returned against what the launcher said.
    ///
    /// # Errors
    /// The library does not recognise the launcher: each process would run as a program of one
    /// rank.
    pub fn check_size(&self, size: u32, library: &str) -> Result<(), MpiError> {
        match self.size {
            Some(launched) if launched > 1 && size == 1 => Err(MpiError::WrongPair {
                launcher: self.launcher.name().to_owned(),
                launched,
                library: library.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// The number of tasks on one node, from a list such as `2(x3),1`.
fn tasks_of(list: &str, node: u32) -> Option<u32> {
    let mut passed = 0_u32;
    for part in list.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse::<u32>().ok()?),
            None => (part, 1),
        };
        passed = passed.checked_add(nodes)?;
        if node < passed {
            return tasks.trim().parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Option<Launch> {
        Launch::from_variables(|name| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn every_launcher_is_understood() {
        let open_mpi = from(&[
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_RANK", "3"),
            ("PMIX_HOSTNAME", "n1"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_ID", "0"),
        ])
        .unwrap();
        assert_eq!(open_mpi.launcher, Launcher::OpenMpi);
        assert_eq!((open_mpi.rank, open_mpi.size), (3, Some(4)));
        assert_eq!(
            (open_mpi.local_rank, open_mpi.local_size),
            (Some(1), Some(2))
        );
        assert_eq!(open_mpi.node_name.as_deref(), Some("n1"));
        let hydra = from(&[
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "3"),
            ("MPI_LOCALRANKID", "0"),
            ("MPI_LOCALNRANKS", "3"),
        ])
        .unwrap();
        assert_eq!(
            (hydra.launcher, hydra.size, hydra.local_size),
            (Launcher::Hydra, Some(3), Some(3))
        );
        let slurm = from(&[
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_TASKS", "7"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_NODEID", "2"),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x3),1"),
            ("SLURMD_NODENAME", "c2"),
            ("PMIX_RANK", "5"),
        ])
        .unwrap();
        assert_eq!(
            (slurm.launcher, slurm.rank, slurm.size),
            (Launcher::Slurm, 5, Some(7))
        );
        assert_eq!(
            (slurm.local_rank, slurm.local_size, slurm.node),
            (Some(1), Some(2), Some(2))
        );
        assert_eq!(
            from(&[("PMIX_RANK", "2")]).unwrap().launcher,
            Launcher::Pmix
        );
        assert_eq!(from(&[("PMI_RANK", "2")]).unwrap().launcher, Launcher::Pmi);
    }

    #[test]
    fn a_batch_script_is_not_a_rank() {
        assert_eq!(from(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), None);
        let shell = [("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "4294967290")];
        assert_eq!(from(&shell), None);
        assert_eq!(from(&[]), None);
    }

    #[test]
    fn task_lists_are_read_by_node() {
        let counts: Vec<_> = (0..5).map(|node| tasks_of("2(x3),1", node)).collect();
        assert_eq!(counts, [Some(2), Some(2), Some(2), Some(1), None]);
    }

    #[test]
    fn a_library_that_finds_itself_alone_is_refused_with_both_names() {
        let launch = from(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4")]).unwrap();
        let text = launch
            .check_size(1, "MPICH Version: 4.0.2")
            .unwrap_err()
            .to_string();
        for part in [
            "mpirun of Open MPI",
            "MPICH Version: 4.0.2",
            "--mpi-lib",
            "4 ranks",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(launch.check_size(4, ""), Ok(()));
    }
}
