//! Buffers of messages, which are reused.

/// Sends under way, and free buffers.
#[derive(Debug)]
pub struct Buffers<S> {
    pub sending: Vec<S>,
    pub spare: Vec<Vec<u8>>,
}

impl<S> Default for Buffers<S> {
    fn default() -> Self {
        Self {
            sending: Vec::new(),
            spare: Vec::new(),
        }
    }
}
