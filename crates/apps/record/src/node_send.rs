//! Takes the program's place when bundles are fetched: `idlewave node-send TOKEN`.

use crate::node_frames;
use crate::node_job::Job;
use crate::node_place::Place;
use crate::node_shim::node_name;
use idlewave_sys::terminal::say;
use std::fs;
use std::io;

/// Writes the bundle of this node to standard output, or removes it if the front has it. Returns
/// the exit code.
pub fn node_send(token: &str) -> i32 {
    let Some(job) = Job::decode(token) else {
        say("idlewave: `node-send` is not meant to be called by hand: its token is damaged\n");
        return 2;
    };
    match send(&job) {
        Ok(()) => 0,
        Err(error) => {
            let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            say(&format!(
                "idlewave: node {} cannot send its bundle: {error}\n",
                host.trim()
            ));
            1
        }
    }
}

fn send(job: &Job) -> io::Result<()> {
    let Some(place) = Place::find(job) else {
        return Ok(());
    };
    // There is none if its recorder could not start.
    let Some((bundle, facts)) = place.bundle().filter(|(bundle, _)| bundle.is_dir()) else {
        return Ok(());
    };
    if !place.elect_sender(job.round)? {
        return Ok(());
    }
    let node = node_name(&place, &facts);
    if job.have.contains(&node) {
        fs::remove_dir_all(&bundle)?;
        return place.remove();
    }
    if job.only.as_ref().is_some_and(|only| *only != node) {
        return Ok(());
    }
    node_frames::send(&bundle, &node, io::stdout().lock())
}
