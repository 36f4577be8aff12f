//! The programs named by PrologSlurmctld and EpilogSlurmctld.

use idlewave_units::foreign::shell_word;
use std::path::Path;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Before a job starts.
    Prolog,
    /// After it has ended.
    Epilog,
}

impl Hook {
    /// The name of the parameter in slurm.conf.
    pub fn key(self) -> &'static str {
        match self {
            Hook::Prolog => "PrologSlurmctld",
            Hook::Epilog => "EpilogSlurmctld",
        }
    }
    /// The name of the subcommand, such as `prolog`.
    pub fn word(self) -> &'static str {
        match self {
            Hook::Prolog => "prolog",
            Hook::Epilog => "epilog",
        }
    }
}

/// The first two lines of every script; a script without them is not ours.
pub(crate) const HEAD: &str = "#!/bin/sh\n# Written by `idlewave gang slurm install`.\n";

/// A shell script that calls `idlewave gang slurm prolog` or `epilog`, and then the site's own
/// program, if there is one. Slurm waits for the script and removes the job if it fails. So a
/// failure of ours is only logged, and our call is killed after 30 seconds; the result of the
/// site's program counts as before. Slurm sets no search path for the call (slurm.conf(5)).
pub fn script(hook: Hook, idlewave: &Path, site: Option<&str>) -> String {
    let word = hook.word();
    let program = shell_word(&idlewave.display().to_string());
    let last = match site {
        Some(site) => format!("# As the site had set it.\nexec {}", shell_word(site)),
        None => "exit 0".to_owned(),
    };
    format!(
        "{HEAD}(
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    export PATH
    timeout 30 {program} gang slurm {word} </dev/null >/dev/null 2>&1 ||
        logger -t idlewave \"{word} of job $SLURM_JOB_ID failed with $?\"
) || :
{last}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

    /// Written by another process: a file cannot be executed while any process has it open for
    /// writing, even a child that merely inherited it.
    fn program(path: PathBuf, text: &str) -> PathBuf {
        let mut write = Command::new("/bin/sh");
        write.args([
            "-c",
            "printf %s \"$1\" >\"$2\" && chmod 755 \"$2\"",
            "sh",
            text,
        ]);
        assert!(write.arg(&path).status().unwrap().success());
        path
    }

    /// Exit status and output, using programs that append their arguments to a file.
    fn call(ours: &str, site: Option<&str>) -> (Option<i32>, String) {
        let dir = tempfile::tempdir().unwrap();
        let said = dir.path().join("said");
        let text = |name: &str, then: &str| {
            format!(
                "#!/bin/sh\necho {name} \"$@\" $SLURM_JOB_ID >>{}\n{then}\n",
                said.display()
            )
        };
        let idlewave = program(dir.path().join("it's idlewave"), &text("ours", ours));
        let site = site.map(|then| {
            let path = program(dir.path().join("site's"), &text("site", then));
            path.display().to_string()
        });
        let script = program(
            dir.path().join("script"),
            &script(Hook::Prolog, &idlewave, site.as_deref()),
        );
        let status = Command::new("/bin/sh")
            .arg(&script)
            .env("SLURM_JOB_ID", "17")
            .status();
        let said = fs::read_to_string(said).unwrap_or_default();
        (status.unwrap().code(), said)
    }

    #[test]
    fn both_are_called_and_only_the_site_s_own_can_fail() {
        let ours = "ours gang slurm prolog 17\n";
        let both = "ours gang slurm prolog 17\nsite 17\n";
        assert_eq!(call("exit 0", None), (Some(0), ours.to_owned()));
        assert_eq!(call("exit 3", None), (Some(0), ours.to_owned()));
        assert_eq!(call("exit 3", Some("exit 0")), (Some(0), both.to_owned()));
        assert_eq!(call("exit 0", Some("exit 5")), (Some(5), both.to_owned()));
    }

    #[test]
    fn a_program_that_is_not_there_fails_nothing() {
        let text = script(Hook::Epilog, Path::new("/nonexistent/idlewave"), None);
        let status = Command::new("/bin/sh")
            .args(["-c", &text])
            .env_clear()
            .status();
        assert_eq!(status.unwrap().code(), Some(0));
        assert!(text.contains("timeout 30 /nonexistent/idlewave gang slurm epilog"));
    }
}
