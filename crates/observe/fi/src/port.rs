//! This process's port to its device. A process is one rank, and a rank attaches only once, so the
//! port stays when its endpoint is closed, for the next one: with what is known of messages of
//! which only a part has been taken from the rings.

use crate::abi::code;
use crate::direct;
use crate::envelope::SHORTEST_PIECE;
use crate::matching::Matching;
use idlewave_fabric::netctx::device::{Attachment, RankPort};
use idlewave_sys::terminal::say;
use std::sync::{Mutex, PoisonError};

enum Port {
    Unattached,
    Free(Box<(RankPort, Matching)>),
    Taken,
}

static PORT: Mutex<Port> = Mutex::new(Port::Unattached);

/// Whether this process has a device, by its environment.
pub fn is_there() -> bool {
    matches!(Attachment::of_this_process(), Ok(Some(_)))
}

/// Takes the port, with the messages that are arriving at it; attaches to the device first if need
/// be, for which all ranks of the gang must have started.
///
/// # Errors
/// A code: another endpoint has it, or the device cannot be used; standard error says why.
pub fn take() -> Result<(RankPort, Matching), isize> {
    let mut port = PORT.lock().unwrap_or_else(PoisonError::into_inner);
    let found = match std::mem::replace(&mut *port, Port::Taken) {
        Port::Taken => return Err(code::EBUSY),
        Port::Free(found) => Ok(*found),
        Port::Unattached => attach(),
    };
    match found {
        Ok(found) => {
            found.0.set_left(false);
            Ok(found)
        }
        Err(why) => {
            *port = Port::Unattached;
            say(&format!("idlewave: failed to {why}\n"));
            Err(code::ENODEV)
        }
    }
}

fn attach() -> Result<(RankPort, Matching), String> {
    let attachment = Attachment::of_this_process().map_err(|error| error.to_string())?;
    let variable = Attachment::VARIABLE;
    let attachment = attachment.ok_or_else(|| {
        format!(
            "find a network device: {variable} is not set; use `idlewave gang submit --context`"
        )
    })?;
    let port = attachment
        .attach_port()
        .map_err(|error| error.to_string())?;
    match port.longest_piece() {
        longest if longest < SHORTEST_PIECE => Err(format!(
            "use a device whose frames carry {longest} bytes: {SHORTEST_PIECE} are needed"
        )),
        _ => {
            direct::allow();
            let matching = Matching::new(port.size());
            Ok((port, matching))
        }
    }
}

/// Puts it back: this rank may end now.
pub fn put_back(port: RankPort, matching: Matching) {
    port.set_left(true);
    let free = Port::Free(Box::new((port, matching.renewed())));
    *PORT.lock().unwrap_or_else(PoisonError::into_inner) = free;
}
