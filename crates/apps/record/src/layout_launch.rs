//! Which launcher starts a program, and its command line for a layout.

use crate::launch::{Machine, Programs, launcher_of};
use crate::launch_options::Launcher;
use idlewave_mpi::abi::Family;
use idlewave_mpi::needed_by;
use idlewave_place::batch::{
    AssignedNode, Assignment, BatchError, Slot, mpich_host_file, open_mpi_host_file,
};
use idlewave_session::SessionError;
use idlewave_topology::fold_hostlist;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Names of the launchers of each kind, unmistakable ones first.
const OPEN_MPI: [&str; 5] = ["mpirun.openmpi", "orterun", "prterun", "mpirun", "mpiexec"];
const HYDRA: [&str; 5] = [
    "mpirun.mpich",
    "mpiexec.mpich",
    "mpiexec.hydra",
    "mpirun",
    "mpiexec",
];

/// A launcher of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Starter {
    /// Its kind; never [`Launcher::Other`].
    pub kind: Launcher,
    /// Its program.
    pub program: OsString,
}

impl Starter {
    /// The launcher that the user gave, or the one of the MPI library that the program loads.
    /// `in_allocation`: a batch system of Slurm gave the nodes.
    ///
    /// # Errors
    /// The given one does not exist or is of an unknown kind; or none fits, or several do.
    pub fn choose(
        given: Option<&OsStr>,
        program: &OsStr,
        in_allocation: bool,
    ) -> Result<Self, SessionError> {
        match given {
            Some(given) => Self::given(given, in_allocation, &Machine),
            None => Self::guess(program, in_allocation),
        }
    }

    fn given(
        given: &OsStr,
        in_allocation: bool,
        machine: &dyn Programs,
    ) -> Result<Self, SessionError> {
        let refused = |reason: &str, next: &str| SessionError::Option {
            option: format!("--launcher {}", given.to_string_lossy()),
            reason: reason.to_owned(),
            next: next.to_owned(),
        };
        if !machine.can_be_started(given) {
            return Err(refused(
                "no such command",
                "check its path, or load the module of the MPI library",
            ));
        }
        match launcher_of(given, machine) {
            Some(Launcher::Slurm) if !in_allocation => Err(refused(
                "it needs an allocation of Slurm",
                "start the study within one, as in salloc -N 2 idlewave place study ...",
            )),
            Some(kind) if kind != Launcher::Other => Ok(Self {
                kind,
                program: given.to_owned(),
            }),
            _ => Err(refused(
                "not a known launcher",
                "give mpirun or mpiexec of Open MPI, MPICH or Intel MPI, or srun",
            )),
        }
    }

    fn guess(program: &OsStr, in_allocation: bool) -> Result<Self, SessionError> {
        // A script, or a program of the standard ABI, does not say which library it will load.
        let needed = needed_by(Path::new(program)).unwrap_or_default();
        let family = |file: &Path| Family::of_soname(&file.file_name()?.to_string_lossy());
        let of_program = needed
            .iter()
            .find_map(|library| Some((family(&library.file)?, library.file.clone())))
            .filter(|(family, _)| *family != Family::Standard);
        let found = match &of_program {
            Some((Family::OpenMpi, file)) => find(Launcher::OpenMpi, Some(file), &Machine),
            Some((_, file)) => find(Launcher::Hydra, Some(file), &Machine),
            None => {
                let kinds = [Launcher::OpenMpi, Launcher::Hydra];
                let all: Vec<Self> = kinds
                    .iter()
                    .filter_map(|&kind| find(kind, None, &Machine))
                    .collect();
                if let [first, second] = all.as_slice() {
                    let name = program.to_string_lossy();
                    return Err(SessionError::Option {
                        option: format!("-- {name}"),
                        reason: format!(
                            "it does not say which MPI library it loads, and both {} and {} are here",
                            first.program.to_string_lossy(),
                            second.program.to_string_lossy()
                        ),
                        next: "give the one of its library with --launcher".to_owned(),
                    });
                }
                all.into_iter().next()
            }
        };
        let slurm = || {
            let kind = Launcher::Slurm;
            let program = OsString::from("srun");
            (in_allocation && Machine.can_be_started(&program)).then_some(Self { kind, program })
        };
        found.or_else(slurm).ok_or_else(|| {
            let of = match of_program {
                Some((family, _)) => format!(" of {}", family.name()),
                None => String::new(),
            };
            SessionError::NotPossible {
                reason: format!("there is no launcher{of} beside its library or in PATH"),
                next: "load the module of the MPI library, or give its mpirun with --launcher"
                    .to_owned(),
            }
        })
    }

    /// What to add to the command line before the program, and to the environment, for `per_node`
    /// ranks on each of the nodes. `hosts` is a file whose content [`Starter::host_file`] gives;
    /// `shared`: the ranks of a node have fewer CPUs than ranks.
    pub fn command(
        &self,
        nodes: &[String],
        per_node: u32,
        shared: bool,
        hosts: &Path,
    ) -> Vec<OsString> {
        let count = nodes.len() as u32;
        let ranks = (count * per_node).to_string();
        let mut words: Vec<OsString> = vec![self.program.clone()];
        let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
        let hosts = hosts.to_string_lossy();
        match self.kind {
            Launcher::Slurm => {
                add(&[
                    &format!("--nodes={count}"),
                    &format!("--ntasks={ranks}"),
                    &format!("--ntasks-per-node={per_node}"),
                    &format!(
                        "--nodelist={}",
                        fold_hostlist(nodes.iter().map(String::as_str))
                    ),
                    "--distribution=block",
                    "--kill-on-bad-exit=1",
                ]);
                if shared {
                    add(&["--overcommit"]);
                }
            }
            Launcher::Hydra => {
                add(&["-f", &hosts, "-ppn", &per_node.to_string(), "-n", &ranks]);
            }
            Launcher::OpenMpi | Launcher::Other => {
                let map = format!("ppr:{per_node}:node");
                match shared {
                    true => add(&[
                        "--hostfile",
                        &hosts,
                        "--map-by",
                        &format!("{map}:OVERSUBSCRIBE"),
                        "--bind-to",
                        "none",
                    ]),
                    false => add(&["--hostfile", &hosts, "--map-by", &map]),
                }
                add(&["-n", &ranks]);
            }
        }
        words
    }

    /// The content of the file of hosts, with consecutive ranks on a node.
    ///
    /// # Errors
    /// A name that launchers would misread, or one that is given twice.
    pub fn host_file(&self, nodes: &[String], per_node: u32) -> Result<String, BatchError> {
        let assigned = nodes.iter().map(|name| AssignedNode {
            name: name.clone(),
            cores: None,
            domains: 1,
        });
        let slots = (0..nodes.len()).flat_map(|node| {
            (0..per_node).map(move |core| Slot {
                node,
                core,
                domain: 0,
            })
        });
        let assignment = Assignment::new(assigned.collect(), slots.collect())?;
        Ok(match self.kind {
            Launcher::Hydra => mpich_host_file(&assignment),
            _ => open_mpi_host_file(&assignment),
        })
    }
}

/// A launcher of this kind: beside the library (in `bin` of its prefix), or in PATH.
fn find(kind: Launcher, library: Option<&Path>, machine: &dyn Programs) -> Option<Starter> {
    let names = match kind {
        Launcher::Hydra => HYDRA,
        _ => OPEN_MPI,
    };
    let prefixes = library
        .into_iter()
        .flat_map(|file| file.ancestors().skip(2).take(2));
    let beside: Vec<PathBuf> = prefixes.map(|prefix| prefix.join("bin")).collect();
    let beside = beside
        .iter()
        .flat_map(|bin| names.map(|name| bin.join(name).into_os_string()));
    let in_path = names.map(OsString::from);
    let mut all = beside.chain(in_path);
    all.find(|word| machine.can_be_started(word) && launcher_of(word, machine) == Some(kind))
        .map(|program| Starter { kind, program })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian: Open MPI's launcher has the plain names, MPICH's the alternative ones.
    struct Debian;

    impl Programs for Debian {
        fn can_be_started(&self, word: &OsStr) -> bool {
            let names = "mpirun mpiexec orterun mpirun.openmpi mpirun.mpich srun true";
            let name = Path::new(word).file_name().unwrap().to_str().unwrap();
            let parent = Path::new(word).parent().unwrap();
            let known = names.split(' ').any(|known| known == name);
            known && (parent == Path::new("") || parent == Path::new("/usr/bin"))
        }
        fn real_path(&self, word: &OsStr) -> Option<PathBuf> {
            match word.to_str()? {
                "mpirun" | "/usr/bin/mpirun" => Some("/usr/bin/orterun".into()),
                other => Some(other.into()),
            }
        }
    }

    fn nodes(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn each_library_gets_its_own_launcher() {
        let library = Path::new("/usr/lib/x86_64-linux-gnu/libmpich.so.12");
        let found = |kind, library| find(kind, library, &Debian).unwrap().program;
        assert_eq!(
            found(Launcher::Hydra, Some(library)),
            OsStr::new("/usr/bin/mpirun.mpich")
        );
        assert_eq!(found(Launcher::OpenMpi, None), OsStr::new("mpirun.openmpi"));
    }

    #[test]
    fn a_given_launcher_must_exist_and_be_known_and_srun_needs_nodes() {
        let given = |word: &str, in_allocation| {
            let given = Starter::given(OsStr::new(word), in_allocation, &Debian);
            given.map(|s| s.kind).map_err(|error| error.to_string())
        };
        assert_eq!(given("mpirun", false), Ok(Launcher::OpenMpi));
        assert_eq!(given("mpirun.mpich", false), Ok(Launcher::Hydra));
        assert_eq!(given("srun", true), Ok(Launcher::Slurm));
        for (word, said) in [
            ("mpirun.no", "no such command"),
            ("true", "not a known launcher"),
            ("srun", "it needs an allocation of Slurm"),
        ] {
            assert_eq!(
                given(word, false),
                Err(format!("use --launcher {word}: {said}"))
            );
        }
    }

    #[test]
    fn a_layout_is_told_in_each_launcher_s_words() {
        let line = |kind, shared| {
            let starter = Starter {
                kind,
                program: "start".into(),
            };
            let words = starter.command(&nodes(&["n1", "n2"]), 2, shared, Path::new("h"));
            let hosts = starter.host_file(&nodes(&["n1", "n2"]), 2).unwrap();
            let words: Vec<String> = words
                .iter()
                .map(|w| w.to_string_lossy().into_owned())
                .collect();
            (words.join(" "), hosts)
        };
        assert_eq!(
            line(Launcher::OpenMpi, false),
            (
                "start --hostfile h --map-by ppr:2:node -n 4".to_owned(),
                "n1 slots=2\nn2 slots=2\n".to_owned()
            )
        );
        assert_eq!(
            line(Launcher::OpenMpi, true).0,
            "start --hostfile h --map-by ppr:2:node:OVERSUBSCRIBE --bind-to none -n 4"
        );
        assert_eq!(
            line(Launcher::Hydra, true),
            (
                "start -f h -ppn 2 -n 4".to_owned(),
                "n1:2\nn2:2\n".to_owned()
            )
        );
        assert_eq!(
            line(Launcher::Slurm, true).0,
            "start --nodes=2 --ntasks=4 --ntasks-per-node=2 --nodelist=n[1-2] --distribution=block \
             --kill-on-bad-exit=1 --overcommit"
        );
    }

    #[test]
    fn names_that_launchers_would_misread_are_refused() {
        let starter = Starter {
            kind: Launcher::OpenMpi,
            program: "start".into(),
        };
        for names in [&["n1", "n1"][..], &["-x"], &["n 1"]] {
            assert!(starter.host_file(&nodes(names), 1).is_err(), "{names:?}");
        }
    }
}
