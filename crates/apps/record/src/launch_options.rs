//! The launchers, and how many values their options take, which is needed to find the program after
//! them.
//!
//! Sources: `mpirun --help full` of Open MPI 4.1.4, help-prterun.txt of Open MPI 5.0.11,
//! `mpiexec.hydra --help` of MPICH 4.0.2, `srun --help` of Slurm 22.05. Options without values are
//! listed only so that they are not unknown.

/// A launcher, which starts the processes of a parallel program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// mpirun, mpiexec, orterun, prterun of Open MPI 4 and 5.
    OpenMpi,
    /// mpiexec of MPICH and its relatives (Hydra).
    Hydra,
    /// srun.
    Slurm,
    /// Another one, for which the user gives the position of the program.
    Other,
}

/// The values of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// This many arguments follow.
    Next(usize),
    /// The programs are in a file, which is the option's value or the first argument.
    InFile,
    /// Not in the tables.
    Unknown,
}

const OPEN_MPI_ONE: &str = "am bind-to c np n N cf cartofile cpu-list cpu-set cpus-per-proc cpus-per-rank debugger \
    default-hostfile H host hnp hostfile launch-agent machinefile map-by max-restarts max-vm-size npernode npersocket \
    ompi-server output-filename path personality ppr prefix preload-files rank-by report-events report-pid report-uri \
    rf rankfile stdin timeout tune wd wdir x xml-file xterm display spawn-timeout stop-in-app output runtime-options \
    add-host add-hostfile app-pmix-prefix pset set-env unset-env gpu-support forward-signals keepalive pmix-prefix \
    singleton tmpdir dvm-uri num-connect-retries";
const OPEN_MPI_TWO: &str =
    "mca gmca omca gomca prtemca gprtemca pmixmca gpmixmca append-env prepend-env";
const OPEN_MPI_NONE: &str = "allow-run-as-root bind-to-core bind-to-socket bycore bynode byslot continuous \
    d debug-devel debug debug-daemons debug-daemons-file disable-recovery display-allocation display-devel-allocation \
    display-devel-map display-diffable-map display-map display-topo do-not-launch do-not-resolve \
    enable-instant-on-support enable-recovery fwd-mpirun-port get-stack-traces h help index-argv-by-rank \
    leave-session-attached merge-stderr-to-stdout nolocal nooversubscribe noprefix novm output-proctable oversubscribe \
    pernode q quiet report-bindings report-child-jobs-separately report-state-on-timeout s preload-binary \
    set-cwd-to-session-dir show-progress tag-output timestamp-output tv use-hwthread-cpus use-regexp v verbose V version \
    xml stop-on-exec stop-in-init no-app-prefix no-ready-msg system-server set-sid hetero-nodes";

const HYDRA_ONE: &str = "genvlist f hostfile hosts host wdir envlist n np launcher launcher-exec bootstrap \
    bootstrap-exec rmk topolib bind-to binding map-by membind demux iface ppn profile prepend-pattern outfile-pattern \
    errfile-pattern nameserver order-nodes localhost usize gpus-per-proc ranks-per-proc pmi-port-range perhost \
    machinefile arch soft path";
const HYDRA_TWO: &str = "genv env";
const HYDRA_NONE: &str = "genvnone genvall envnone envall enable-x disable-x verbose v info version print-all-exitcodes \
    prepend-rank l disable-auto-cleanup disable-hostname-propagation pmi-port skip-launch-node h help debug";

/// Slurm reads short options bundled and with the value attached (`-lN2`), so these are single
/// letters.
const SLURM_SHORT_ONE: &str = "A b c d D e G i J L m M n N o p q r S T t w W x C B F";
const SLURM_SHORT_NONE: &str = "E H I k K l O Q s u v X Z h V";
const SLURM_ONE: &str = "account acctg-freq accel-bind bb bbf bcast-exclude begin chdir cluster-constraint clusters \
    comment constraint container core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task deadline \
    delay-boot dependency distribution epilog error exclude export extra-node-info gid gpu-bind gpu-freq gpus \
    gpus-per-node gpus-per-socket gpus-per-task gres gres-flags het-group hint input job-name jobid licenses mail-type \
    mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout network nodefile nodelist nodes \
    ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output partition \
    power prefer priority profile prolog qos relative reservation signal slurmd-debug sockets-per-node switches \
    task-epilog task-prolog thread-spec threads threads-per-core time time-min tmp tres-bind tres-per-task uid wait \
    wckey container-id extra";
/// Long options whose value, if any, is attached with `=`.
const SLURM_NONE: &str = "bcast compress contiguous disable-status exact exclusive help hold immediate kill-on-bad-exit \
    label nice no-allocate no-kill overcommit overlap oversubscribe preserve-env propagate pty quiet quit-on-interrupt \
    reboot resv-ports send-libs spread-job test-only unbuffered usage use-min-nodes verbose version x11 external stepmgr";

fn lists(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known == name)
}

/// What follows the option `token`, which begins with `-`; `next` is the word after it.
pub(crate) fn values(launcher: Launcher, token: &str, next: Option<&str>) -> Values {
    match launcher {
        Launcher::OpenMpi => dashed(token, OPEN_MPI_ONE, OPEN_MPI_TWO, OPEN_MPI_NONE, "app"),
        Launcher::Hydra => {
            let found = dashed(token, HYDRA_ONE, HYDRA_TWO, HYDRA_NONE, "configfile");
            // `-genv NAME VALUE` may be written `-genv NAME=VALUE` (and `-genv=NAME VALUE`,
            // `-genv=NAME=VALUE`).
            match found {
                Values::Next(2) if next.is_some_and(|word| word.contains('=')) => Values::Next(1),
                Values::Next(1) if token.split('=').count() > 2 && is_hydra_variable(token) => {
                    Values::Next(0)
                }
                other => other,
            }
        }
        Launcher::Slurm => slurm(token),
        Launcher::Other => Values::Unknown,
    }
}

fn is_hydra_variable(token: &str) -> bool {
    let bare = token.trim_start_matches('-');
    bare.split('=').next().is_some_and(|n| lists(HYDRA_TWO, n))
}

/// Open MPI and Hydra: one dash or two, the value as the next argument or after `=`.
fn dashed(token: &str, one: &str, two: &str, none: &str, in_file: &str) -> Values {
    let bare = token.trim_start_matches('-');
    let (name, attached) = match bare.split_once('=') {
        Some((name, _)) => (name, 1),
        None => (bare, 0),
    };
    if name == in_file {
        Values::InFile
    } else if lists(two, name) {
        Values::Next(2 - attached)
    } else if lists(one, name) {
        Values::Next(1 - attached)
    } else if lists(none, name) {
        Values::Next(0)
    } else {
        Values::Unknown
    }
}

fn slurm(token: &str) -> Values {
    if let Some(long) = token.strip_prefix("--") {
        let (name, attached) = match long.split_once('=') {
            Some((name, _)) => (name, true),
            None => (long, false),
        };
        return if name == "multi-prog" {
            Values::InFile
        } else if lists(SLURM_ONE, name) {
            Values::Next(usize::from(!attached))
        } else if lists(SLURM_NONE, name) {
            Values::Next(0)
        } else {
            Values::Unknown
        };
    }
    for (at, letter) in token.char_indices().skip(1) {
        let name = letter.to_string();
        if lists(SLURM_SHORT_ONE, &name) {
            let last = at + letter.len_utf8() == token.len();
            return Values::Next(usize::from(last));
        }
        // The rest of the word is their value.
        if matches!(letter, 'I' | 'k' | 'K') {
            return Values::Next(0);
        }
        if !lists(SLURM_SHORT_NONE, &name) {
            return Values::Unknown;
        }
    }
    Values::Next(0)
}

/// The effect of an option on the output of the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// None; or it is not an option.
    No,
    /// It prefixes or redirects the output, together with `values` arguments after it.
    Whole {
        /// Arguments after it.
        values: usize,
    },
    /// The short options in a word that have no effect on the output.
    Rest(String),
}

const OPEN_MPI_OUTPUT: &str = "tag-output timestamp-output xml output-filename xml-file output xterm stdin \
    merge-stderr-to-stdout";
const HYDRA_OUTPUT: &str = "l prepend-rank prepend-pattern outfile-pattern errfile-pattern";
const SLURM_OUTPUT: &str = "label output error input pty open-mode";

/// Whether the option `token` prefixes the launcher's output or redirects it.
pub(crate) fn output_option(launcher: Launcher, token: &str) -> Output {
    let list = match launcher {
        Launcher::OpenMpi => OPEN_MPI_OUTPUT,
        Launcher::Hydra => HYDRA_OUTPUT,
        Launcher::Slurm => SLURM_OUTPUT,
        Launcher::Other => return Output::No,
    };
    let bare = token.trim_start_matches('-');
    if bare == token {
        return Output::No;
    }
    if launcher == Launcher::Slurm && !token.starts_with("--") {
        return slurm_short_output(token);
    }
    let name = bare.split_once('=').map_or(bare, |(name, _)| name);
    match values(launcher, token, None) {
        Values::Next(values) if lists(list, name) => Output::Whole { values },
        _ => Output::No,
    }
}

/// `-l` and `-u` may precede others in one word; `-o`, `-e` and `-i` take the rest of it as their
/// value.
fn slurm_short_output(token: &str) -> Output {
    let mut rest = String::from("-");
    for (at, letter) in token.char_indices().skip(1) {
        let name = letter.to_string();
        if matches!(letter, 'o' | 'e' | 'i') {
            let values = usize::from(at + 1 == token.len());
            return match rest.as_str() {
                "-" => Output::Whole { values },
                // If the word ends here, the value is in the next word; such words are not handled.
                _ if values == 0 => Output::Rest(rest),
                _ => Output::No,
            };
        }
        if lists(SLURM_SHORT_ONE, &name) || matches!(letter, 'I' | 'k' | 'K') {
            rest.push_str(&token[at..]);
            break;
        }
        if letter != 'l' {
            rest.push(letter);
        }
    }
    match rest.as_str() {
        "-" => Output::Whole { values: 0 },
        _ if rest == token => Output::No,
        _ => Output::Rest(rest),
    }
}
