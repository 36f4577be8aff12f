//! A controller without nodes, that hears what the input says.

use idlewave_gang::policy;
use idlewave_gang::protocol::{ControllerSettings, Peer};
use idlewave_gang_agent::{Center, CenterSettings, Clients, Copying, Courier, DeskSettings, Place};
use idlewave_units::Nanos;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Brings what the input says, then stops the service after some more turns.
pub struct Words {
    pub words: VecDeque<(Peer, Vec<u8>)>,
    pub turns: u32,
    pub stop: Arc<AtomicBool>,
    socket: UnixStream,
}

impl Words {
    pub fn new(words: VecDeque<(Peer, Vec<u8>)>, turns: u32) -> Self {
        let (socket, _) = UnixStream::pair().expect("two sockets");
        Self {
            words,
            turns,
            stop: Arc::default(),
            socket,
        }
    }
}

impl Courier for Words {
    fn send(&mut self, _: Nanos, _: Peer, _: &[u8]) {}
    fn receive(&mut self, _: Nanos) -> Option<(Peer, Vec<u8>)> {
        let word = self.words.pop_front();
        if word.is_none() {
            self.turns = self.turns.saturating_sub(1);
            if self.turns == 0 {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        word
    }
    fn due(&self) -> Option<Nanos> {
        // It never waits.
        Some(Nanos::ZERO)
    }
    fn know(&mut self, _: Peer, _: &Place) {}
    fn place(&self, _: Peer) -> Option<Place> {
        Some(Place::Unix(PathBuf::from("/nowhere")))
    }
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
    fn trouble(&mut self) -> Option<String> {
        None
    }
}

/// The control socket, of this process alone.
pub fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| std::env::temp_dir().join(format!("gang-{}.sock", std::process::id())))
}

pub fn center(words: Words) -> Center<Words> {
    let ms = Nanos::from_millis;
    let settings = CenterSettings {
        protocol: ControllerSettings {
            arity: 2,
            lease: ms(100),
            margin: ms(10),
            repeat: ms(1),
            limit: ms(50),
            hop: Nanos::ZERO,
            beat: ms(10),
        },
        desk: DeskSettings {
            policy: policy::Settings::default(),
            rows: 8,
            settle: Nanos::ZERO,
            yielding: true,
            copying: Copying::All,
        },
        always: true,
        owner: idlewave_sys::Uid::own(),
        operators: Vec::new(),
        start: 1,
    };
    let clients = Clients::listen(path(), false).expect("a socket in the temporary directory");
    Center::new(settings, words, clients).expect("settings within range")
}
