//! Both ends of a channel with their rings, for tests of channels.

use idlewave_fabric::netctx::Link;
use idlewave_fabric::netctx::channel::{ReceiveState, Receiver, Ring, SendState, Sender};

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Ends {
    payload: usize,
    pub send: SendState,
    send_ring: Vec<u64>,
    pub receive: ReceiveState,
    receive_ring: Vec<u64>,
}

impl Ends {
    /// The ends of a channel whose first frame is `first`, with rings of `window` and `credits`
    /// frames.
    pub fn new(link: Link, first: u32, [window, credits]: [u32; 2], payload: usize) -> Self {
        let ring = |slots: u32| vec![0; slots as usize * Ring::stride(payload) / 8];
        Self {
            payload,
            send: SendState::new(link, first, credits),
            send_ring: ring(window),
            receive: ReceiveState::new(link, first, credits),
            receive_ring: ring(credits),
        }
    }

    pub fn sender(&mut self) -> Sender<'_> {
        let ring = Ring::new(&mut self.send_ring, self.payload).unwrap();
        Sender::new(&mut self.send, ring)
    }

    pub fn receiver(&mut self) -> Receiver<'_> {
        let ring = Ring::new(&mut self.receive_ring, self.payload).unwrap();
        Receiver::new(&mut self.receive, ring)
    }
}
