//! Random numbers for the desk, which has none of its own.

use super::{Center, Note};
use crate::contexts::DeviceKey;
use crate::courier::Courier;

impl<C: Courier> Center<C> {
    /// Ensures that the desk has a key for the next multi-node device.
    pub(super) fn keep_key(&mut self) {
        if !self.desk.wants_key() {
            return;
        }
        match DeviceKey::random() {
            Ok(key) => self.desk.take_key(key),
            Err(why) => self.notes.push(Note::Trouble(why)),
        }
    }
}
