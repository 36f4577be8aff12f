//! Ranks of other nodes, as seen by the watching process. The launcher starts a lookout on each
//! node before the node's first rank; the lookout reports what its ranks wait for. It proves its
//! identity with a key that the launcher passes on in the environment.

use idlewave_freeze::clock;
use idlewave_hangs::Far;
use idlewave_link::{Address, Auth, Key, Link, LinkError, Peer};
use idlewave_record::Launcher;
use idlewave_units::NodeId;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;
use std::time::Instant;

/// The variable in which ranks of other nodes find an [`Invitation`]. It holds a key, which is safe
/// there: only the ranks' user can read their environment.
pub const VARIABLE: &str = "IDLEWAVE_LOOKOUT";
/// Open MPI's own list of variables to pass on.
const LIST: &str = "mca_base_env_list";
/// The most addresses of this machine that a lookout tries.
const ADDRESSES: usize = 8;

/// What a lookout needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The job's identifier: 32 hexadecimal digits.
    pub job: String,
    /// The key, as text.
    pub key: String,
    /// The addresses of the watching process, in the order in which to try them.
    pub at: Vec<SocketAddr>,
}

impl Invitation {
    fn text(&self) -> String {
        let at: Vec<String> = self.at.iter().map(SocketAddr::to_string).collect();
        format!("{} {} {}", self.job, self.key, at.join(","))
    }
}

impl FromStr for Invitation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let (Some(job), Some(key), Some(at), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(());
        };
        let plain = job.len() == 32 && job.bytes().all(|b| b.is_ascii_hexdigit());
        let at: Result<Vec<SocketAddr>, _> = at.split(',').map(str::parse).collect();
        match (plain, Key::from_text(key), at) {
            (true, Some(_), Ok(at)) => Ok(Self {
                job: job.to_owned(),
                key: key.to_owned(),
                at,
            }),
            _ => Err(()),
        }
    }
}

/// The watching process's link to the lookouts.
#[derive(Debug)]
pub struct Lookouts {
    link: Link,
    invitation: Invitation,
}

impl Lookouts {
    /// Listens on a port of all of this machine's IPv4 addresses, only to peers that have the key.
    ///
    /// # Errors
    /// No port or no random numbers are available.
    pub fn listen() -> Result<Self, LinkError> {
        let (job, key) = (Key::random_text()?, Key::random_text()?);
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        // The key was just generated, so it parses.
        let Some(auth) = Key::from_text(&key).map(Auth::Key) else {
            return Err(LinkError::Random("a key that is none".to_owned()));
        };
        let link = Link::bind(Peer::Controller, auth, &Address::Udp(any))?;
        let port = match link.address() {
            Address::Udp(address) => address.port(),
            Address::Unix(_) => 0,
        };
        let found = if_addrs::get_if_addrs().unwrap_or_default();
        let own = found.into_iter().filter(|of| !of.is_loopback());
        let own = own.map(|of| of.ip()).filter(IpAddr::is_ipv4);
        let at = own.take(ADDRESSES).map(|ip| SocketAddr::new(ip, port));
        let invitation = Invitation {
            job: job.chars().take(32).collect(),
            key,
            at: at.collect(),
        };
        Ok(Self { link, invitation })
    }

    /// The variable that launchers pass on to the ranks.
    pub fn variable(&self) -> (OsString, OsString) {
        (VARIABLE.into(), self.invitation.text().into())
    }

    /// Options, placed before the program, that make a launcher pass the variable on if it does not
    /// do so by itself. They hold only the variable's name, since command lines are public.
    pub fn options(launcher: Launcher, command: &[OsString]) -> Vec<OsString> {
        // Open MPI takes either this option or its list, and ends a job that has both.
        let listed = command.iter().any(|word| word == LIST)
            || std::env::var_os(format!("OMPI_MCA_{LIST}")).is_some();
        match launcher {
            Launcher::OpenMpi if !listed => vec!["-x".into(), VARIABLE.into()],
            _ => Vec::new(),
        }
    }

    /// Receives the lookouts' messages.
    pub fn hear(&mut self, far: &mut Far) {
        // A socket error counts as a lost message.
        while let Ok(Some((from, bytes))) = self.link.receive(clock::now()) {
            if let Peer::Agent(node) = from {
                // A lookout of another version is ignored, as if it were missing.
                let _ = far.hear(Instant::now(), node, &bytes);
            }
        }
    }

    /// Sends the pending messages to the lookouts.
    pub fn say(&mut self, far: &mut Far) {
        for (node, bytes) in far.take() {
            let _ = self.link.send(clock::now(), Peer::Agent(node), &bytes);
        }
    }
}

impl AsFd for Lookouts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// A random node number, almost certainly unique among the lookouts of the job.
pub fn number() -> Result<NodeId, LinkError> {
    let text = Key::random_text()?;
    let digits = text.get(..8).unwrap_or_default();
    Ok(NodeId::new(
        u32::from_str_radix(digits, 16).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_read_back_and_nothing_else_is_one() {
        let lookouts = Lookouts::listen().unwrap();
        let (_, text) = lookouts.variable();
        let text = text.into_string().unwrap();
        assert_eq!(text.parse(), Ok(lookouts.invitation.clone()));
        let more = format!("{text} ");
        let fewer = &text[1..];
        let elsewhere = text.replacen(|c: char| c.is_ascii_hexdigit(), "/", 1);
        for wrong in ["", "a b c", &more, fewer, &elsewhere] {
            assert_eq!(wrong.parse::<Invitation>(), Err(()), "{wrong}");
        }
    }
}
