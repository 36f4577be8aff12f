//! A network device of this process, with one gang whose ranks all run on this node, and that is
//! switched without freezing.

use idlewave_fabric::netctx::device::{Attachment, Gang, Setup, write_ticket};
use idlewave_fabric::netctx::{Device, Memory};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

const GANG: u32 = 1;

pub struct Site {
    device: Device<Memory>,
    ticket: PathBuf,
    epoch: u64,
    _directory: tempfile::TempDir,
}

impl Site {
    pub fn new(ranks: u32) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let setup = Setup::new(directory.path().join("device"));
        let transport = Memory::all(1).remove(0);
        let device = Device::new(&setup, transport).expect("a device");
        let nodes = vec![0; ranks as usize];
        device.admit(&Gang { gang: GANG, nodes }).expect("room");
        let limit = Duration::from_secs(1);
        device.switch(GANG, limit).expect("a switch");
        device.resume(1).expect("an epoch");
        let ticket = directory.path().join("ticket");
        let user = idlewave_sys::Uid::own().get();
        write_ticket(&ticket, device.path(), GANG, user).expect("a ticket");
        Self {
            device,
            ticket,
            epoch: 1,
            _directory: directory,
        }
    }

    /// Tells a command's ranks where the device is.
    pub fn prepare(&self, command: &mut Command) {
        command.env(Attachment::VARIABLE, Attachment::of_ticket(&self.ticket));
    }

    /// Stops the gang, drains its network and lets it go on; returns whether it was drained in
    /// time.
    pub fn switch(&mut self) -> bool {
        self.device.stop(GANG).expect("the gang");
        let drained = self.device.wait_drained(Duration::from_millis(100));
        self.epoch += 1;
        self.device.resume(self.epoch).expect("a later epoch");
        drained.complete
    }

    /// Waits for a command, switching the gang `every` so often; returns how it ended, and how many
    /// switches there were and how many of them were not drained in time.
    pub fn wait(&mut self, child: &mut Child, every: Option<Duration>) -> (ExitStatus, u32, u32) {
        let (mut switches, mut undrained) = (0, 0);
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return (status, switches, undrained);
            }
            std::thread::sleep(every.unwrap_or(Duration::from_millis(5)));
            if every.is_some() {
                switches += 1;
                undrained += u32::from(!self.switch());
            }
        }
    }

    pub fn has_failed(&self) -> bool {
        self.device.has_failed(GANG).expect("the gang")
    }
}
