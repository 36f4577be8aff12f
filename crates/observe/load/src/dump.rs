//! Counters of switches, as tools print them. The form of a text is recognised:
//!
//! | tool | what is read |
//! |---|---|
//! | `perfquery`, `perfquery -x` | `PortXmitData` and `PortRcvData` of a port, by the LID of its device |
//! | `ibqueryerrors --data -r` and `--counters -r` | the same of all ports, with names and what is at the other end |
//! | `iblinkinfo`, with `-l` or without | names of devices by their LIDs, and what is at the other end of each port |
//! | `snmpwalk` of IF-MIB | `ifHCInOctets` and `ifHCOutOctets` (or those of 32 bits), `ifName`, `ifAlias`, `sysName` |

mod infiniband;
mod port;
mod snmp;

pub use port::{Counts, Device, Port};

use crate::error::LoadError;
use idlewave_units::foreign::cut;

/// Reads the output of one of the tools.
///
/// # Errors
/// Another form, or a line that does not have its form.
pub fn read_dump(text: &str) -> Result<Vec<Port>, LoadError> {
    let has = |part: &str| text.contains(part);
    let ports = match () {
        () if has("ounters: Lid ") => infiniband::perfquery(text)?,
        () if has("GUID 0x") && has(" for 0x") => infiniband::ibqueryerrors(text)?,
        () if has("==(") => infiniband::iblinkinfo(text)?,
        () if snmp::is_walk(text) => snmp::walk(text)?,
        () => {
            let first = text.lines().find(|line| !line.trim().is_empty());
            return Err(LoadError::Text(format!(
                "not a known form of counters, which begins with {:?}",
                cut(first.unwrap_or_default())
            )));
        }
    };
    match ports.is_empty() {
        true => Err(LoadError::Text("it names no port".to_owned())),
        false => Ok(ports),
    }
}

#[cfg(test)]
mod tests;
