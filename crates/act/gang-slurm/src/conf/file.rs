//! The change of slurm.conf on disk: a copy beside it, the scripts, and the file itself, each
//! replaced atomically.

use super::{ConfError, Hook, Plan, Wanted, install, script, uninstall};
use crate::SlurmError;
use idlewave_sys::files;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Where slurm.conf, its copy and the scripts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// slurm.conf itself, with links resolved.
    pub conf: PathBuf,
    /// A copy of the site's version before the last change: `slurm.conf.before-idlewave`.
    pub copy: PathBuf,
    /// The script for PrologSlurmctld.
    pub prolog: PathBuf,
    /// The script for EpilogSlurmctld.
    pub epilog: PathBuf,
}

/// What was done to slurm.conf. It takes effect after slurmctld is restarted and `scontrol
/// reconfigure` has run on every machine that has the file. With `reconfigure` alone, Slurm 22.05
/// lets jobs share CPUs and does not slice them, but calls no program that it did not know when it
/// started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// What the file now says.
    pub plan: Plan,
    /// Whether it already said so before.
    pub unchanged: bool,
}

impl Setup {
    /// Places the copy and the scripts in the directory of that slurm.conf.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn beside(conf: &Path) -> Result<Self, SlurmError> {
        let conf = fs::canonicalize(conf).map_err(SlurmError::file("find", conf))?;
        let name = conf.file_name().unwrap_or_default().to_string_lossy();
        Ok(Setup {
            copy: conf.with_file_name(format!("{name}.before-idlewave")),
            prolog: conf.with_file_name("idlewave-prolog"),
            epilog: conf.with_file_name("idlewave-epilog"),
            conf,
        })
    }

    /// Writes the copy, the scripts and slurm.conf, in this order, so that slurm.conf never names
    /// a script that does not exist. `idlewave` is the program that the scripts call; `sharing`
    /// and `partitions` are those of [`Wanted`].
    ///
    /// # Errors
    /// What [`install`] refuses, and files that cannot be read or written. slurm.conf is then
    /// unchanged.
    pub fn install(
        &self,
        idlewave: &Path,
        sharing: u32,
        partitions: impl IntoIterator<Item = String>,
    ) -> Result<Done, SlurmError> {
        let path = |path: &Path| match path.to_str() {
            Some(path) => Ok(path.to_owned()),
            None => Err(self.refused(ConfError::Path(path.display().to_string()))),
        };
        let wanted = Wanted {
            sharing,
            partitions: partitions.into_iter().collect(),
            prolog: path(&self.prolog)?,
            epilog: path(&self.epilog)?,
        };
        let text = self.text()?;
        let plan = install(&text, &wanted).map_err(|e| self.refused(e))?;
        let site = uninstall(&text).map_err(|e| self.refused(e))?;
        let like = fs::metadata(&self.conf).map_err(SlurmError::file("read", &self.conf))?;
        let conf = (like.mode() & 0o7777, Some((like.uid(), like.gid())));
        replace(&self.copy, &site, conf)?;
        for (hook, path, own) in [
            (Hook::Prolog, &self.prolog, &plan.site_prolog),
            (Hook::Epilog, &self.epilog, &plan.site_epilog),
        ] {
            let text = script(hook, idlewave, own.as_deref());
            replace(path, &text, (0o755, None))?;
        }
        let unchanged = plan.text == text;
        if !unchanged {
            replace(&self.conf, &plan.text, conf)?;
        }
        Ok(Done { plan, unchanged })
    }

    /// Restores slurm.conf and returns whether there was anything to restore. The scripts stay:
    /// slurmctld calls them until it is restarted, and removes jobs if they are missing.
    /// Afterwards call [`Setup::remove_scripts`].
    ///
    /// # Errors
    /// Damaged blocks, and files that cannot be read or written.
    pub fn uninstall(&self) -> Result<bool, SlurmError> {
        let text = self.text()?;
        let site = uninstall(&text).map_err(|e| self.refused(e))?;
        if site == text {
            return Ok(false);
        }
        let like = fs::metadata(&self.conf).map_err(SlurmError::file("read", &self.conf))?;
        let conf = (like.mode() & 0o7777, Some((like.uid(), like.gid())));
        replace(&self.conf, &site, conf)?;
        // A copy that differs contains later edits: it is left to the site.
        if fs::read(&self.copy).is_ok_and(|copy| copy == site.as_bytes()) {
            let _ = fs::remove_file(&self.copy);
        }
        Ok(true)
    }

    /// Removes the scripts, if they are ours, once slurmctld has read a slurm.conf that does not
    /// name them.
    ///
    /// # Errors
    /// Scripts that cannot be read or removed; scripts that slurm.conf still names, as
    /// [`ConfError::InUse`].
    pub fn remove_scripts(&self) -> Result<(), SlurmError> {
        let text = self.text()?;
        if uninstall(&text).map_err(|e| self.refused(e))? != text {
            return Err(self.refused(ConfError::InUse));
        }
        for path in [&self.prolog, &self.epilog] {
            match fs::read(path) {
                Ok(script) if script.starts_with(super::script::HEAD.as_bytes()) => {
                    fs::remove_file(path).map_err(SlurmError::file("remove", path))?;
                }
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(SlurmError::file("read", path)(e)),
            }
        }
        Ok(())
    }

    fn text(&self) -> Result<String, SlurmError> {
        let bytes = fs::read(&self.conf).map_err(SlurmError::file("read", &self.conf))?;
        String::from_utf8(bytes).map_err(|e| {
            let good = e.utf8_error().valid_up_to();
            let ends = e
                .as_bytes()
                .iter()
                .take(good)
                .filter(|b| **b == b'\n')
                .count();
            self.refused(ConfError::NotText(ends + 1))
        })
    }

    fn refused(&self, source: ConfError) -> SlurmError {
        SlurmError::Conf {
            path: self.conf.clone(),
            source,
        }
    }
}

/// Atomically replaces a file with one of that mode and, if given, owner and group: readers see
/// either the old or the new one, even after a crash.
fn replace(
    path: &Path,
    text: &str,
    (mode, owner): (u32, Option<(u32, u32)>),
) -> Result<(), SlurmError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.idlewave-{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        // Left by a killed process that had the same PID.
        let _ = fs::remove_file(&new);
        let mut file = files::create_with(&new, 0o600)?;
        file.write_all(text.as_bytes())?;
        if let Some((user, group)) = owner {
            chown(&new, Some(user), Some(group))?;
        }
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent()
            .map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    };
    write().map_err(|e| {
        let _ = fs::remove_file(&new);
        SlurmError::file("replace", path)(e)
    })
}
