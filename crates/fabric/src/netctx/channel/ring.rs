//! Slots for the frames of one direction, in memory that is lent: plain bytes without a pointer in them.

/// Bytes before each slot's content: its length, and whether it ends a message.
const HEAD: usize = 8;

/// Frames by their sequence numbers. Which of them are there is known by who uses it.
#[derive(Debug)]
pub struct Ring<'a> {
    bytes: &'a mut [u8],
    slots: u32,
    stride: usize,
}

impl<'a> Ring<'a> {
    /// Bytes that one slot takes whose frames carry `payload` bytes.
    pub const fn stride(payload: usize) -> usize {
        HEAD + payload.next_multiple_of(8)
    }

    /// Slots in `bytes`, each for `payload` bytes; `None` unless their number is a power of two from 1 to 2^30: only
    /// then does a number that wraps around keep its slot.
    pub fn new(bytes: &'a mut [u8], payload: usize) -> Option<Self> {
        let stride = Self::stride(payload);
        let slots = u32::try_from(bytes.len() / stride).ok()?;
        let fits = slots.is_power_of_two() && slots <= 1 << 30;
        fits.then_some(Self {
            bytes,
            slots,
            stride,
        })
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The most bytes that a slot holds.
    pub fn payload(&self) -> usize {
        self.stride - HEAD
    }

    fn begin(&self, sequence: u32) -> usize {
        (sequence & (self.slots - 1)) as usize * self.stride
    }

    /// The bytes of a slot that hold its frame: whole words.
    pub(in crate::netctx) fn used(&self, sequence: u32) -> &[u8] {
        let begin = self.begin(sequence);
        let length = HEAD + self.length(begin).next_multiple_of(8);
        &self.bytes[begin..begin + length]
    }

    /// Puts a frame back for which [`used`](Self::used) gave the first of these bytes; gives the others.
    pub(in crate::netctx) fn refill<'b>(&mut self, sequence: u32, used: &'b [u8]) -> &'b [u8] {
        let begin = self.begin(sequence);
        self.bytes[begin..begin + HEAD].copy_from_slice(&used[..HEAD]);
        let length = HEAD + self.length(begin).next_multiple_of(8);
        self.bytes[begin..begin + length].copy_from_slice(&used[..length]);
        &used[length..]
    }

    fn length(&self, begin: usize) -> usize {
        let mut raw = [0; 4];
        raw.copy_from_slice(&self.bytes[begin..begin + 4]);
        (u32::from_le_bytes(raw) as usize).min(self.payload())
    }

    /// Puts a frame into its slot; false if it is too long for one.
    pub fn put(&mut self, sequence: u32, end: bool, content: &[u8]) -> bool {
        if content.len() > self.payload() {
            return false;
        }
        let begin = self.begin(sequence);
        let slot = &mut self.bytes[begin..begin + self.stride];
        slot[..4].copy_from_slice(&(content.len() as u32).to_le_bytes());
        slot[4..HEAD].copy_from_slice(&u32::from(end).to_le_bytes());
        slot[HEAD..HEAD + content.len()].copy_from_slice(content);
        true
    }

    /// The content of a slot, and whether it ends a message.
    pub fn get(&self, sequence: u32) -> (&[u8], bool) {
        let begin = self.begin(sequence);
        let content = begin + HEAD..begin + HEAD + self.length(begin);
        (&self.bytes[content], self.bytes[begin + 4] != 0)
    }
}
