//! The ranks of other nodes, as the one who watches them hears of them: a lookout on each, started
//! by the launcher before the first rank of the node, tells what its ranks wait for. It is known by
//! a key that the launcher passes on in the environment.

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

/// The variable that ranks of other nodes find an [`Invitation`] in. It holds a key: nobody but
/// their user may read their environment.
pub const VARIABLE: &str = "IDLEWAVE_LOOKOUT";
/// Open MPI's own list of variables that are passed on.
const LIST: &str = "mca_base_env_list";
/// As many addresses of this machine are tried, the first ones.
const ADDRESSES: usize = 8;

/// What a lookout needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Number of the job: 32 hexadecimal digits.
    pub job: String,
    /// Text of the key.
    pub key: String,
    /// Where who watches may be reached, in this order.
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

/// Where lookouts are heard.
#[derive(Debug)]
pub struct Lookouts {
    link: Link,
    invitation: Invitation,
}

impl Lookouts {
    /// Listens, at a port of all IPv4 addresses of this machine; only to who has the key.
    ///
    /// # Errors
    /// No port, no random numbers.
    pub fn listen() -> Result<Self, LinkError> {
        let (job, key) = (Key::random_text()?, Key::random_text()?);
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        // It was made just now.
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

    /// Words before the program that have a launcher pass it on, if it does not by itself: the name
    /// alone, as command lines are public.
    pub fn options(launcher: Launcher, command: &[OsString]) -> Vec<OsString> {
        // Open MPI takes either this option or its list, and ends a job that has both.
        let listed = command.iter().any(|word| word == LIST)
            || std::env::var_os(format!("OMPI_MCA_{LIST}")).is_some();
        match launcher {
            Launcher::OpenMpi if !listed => vec!["-x".into(), VARIABLE.into()],
            _ => Vec::new(),
        }
    }

    /// Takes in what lookouts have said.
    pub fn hear(&mut self, far: &mut Far) {
        // What a socket cannot do is not heard, as what is lost.
        while let Ok(Some((from, bytes))) = self.link.receive(clock::now()) {
            if let Peer::Agent(node) = from {
                // One of another version is as one that is not there.
                let _ = far.hear(Instant::now(), node, &bytes);
            }
        }
    }

    /// Says what they are to be told.
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

/// A number that no other lookout of the job has, as good as surely.
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
