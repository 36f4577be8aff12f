//! Printing to standard output.

use crate::exit::{Exit, Failure};
use idlewave_sys::terminal::Stream;
use std::io::ErrorKind;

/// Writes to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    printed(Stream::Output.write(text))
}

/// Converts the result of a write to standard output. A reader that closes the pipe early has what
/// it wanted, so that is no failure.
pub fn printed(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            let failure = Failure::new(Exit::Io, format!("write to standard output: {e}"));
            Err(failure.with_next("send the output elsewhere"))
        }
        _ => Ok(()),
    }
}

/// Writes to standard output something that is also in a bundle.
pub fn print_of_bundle(text: &str) -> Result<(), Failure> {
    of_bundle(print(text))
}

/// Adds the next step for output that could not be written but is also in a bundle.
pub fn of_bundle(printed: Result<(), Failure>) -> Result<(), Failure> {
    let next = "send the output elsewhere; the bundle is not affected";
    printed.map_err(|failure| failure.with_next(next))
}
