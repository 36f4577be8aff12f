//! Processes of tests.

use idlewave_units::Pid;
use std::path::Path;
use std::process::{Child, Command};

/// A process that ends with this.
pub struct Ended(pub Child);

impl Ended {
    pub fn pid(&self) -> Pid {
        Pid::new(self.0.id())
    }

    /// Kills it, and leaves it to be waited for.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that sleeps for a minute if it is sleep(1), with these variables in its environment and no others.
pub fn start(program: &Path, variables: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(program);
    command.arg("60").env_clear();
    Ended(command.envs(variables.iter().copied()).spawn().unwrap())
}

/// As [`start`], of sleep(1).
pub fn sleep(variables: &[(&str, &str)]) -> Ended {
    start(Path::new("/bin/sleep"), variables)
}
