//! Services of the operating system that several crates use.
//!
//! Base of the flow: nothing here knows about runs, traces or gangs.

pub mod affinity;
pub mod clock;
pub mod file_limit;
pub mod files;
pub mod futex;
pub mod lock_file;
pub mod mapping;
pub mod owner;
pub mod peer;
pub mod pid_namespace;
pub mod poll;
pub mod private_dir;
pub mod process;
pub mod realtime;
pub mod run_as;
pub mod shield;
pub mod terminal;
mod uid;

pub use uid::Uid;

/// The host name of this machine, as in uname(2).
pub fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}
