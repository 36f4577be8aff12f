//! Slots for the frames of one direction, in memory that is lent: plain bytes without a pointer in them.

use std::marker::PhantomData;
use std::ptr::NonNull;

/// Bytes before each slot's content: its length, and whether it ends a message.
const HEAD: usize = 8;

/// Frames by their sequence numbers. Which of them are there is known by who uses it.
#[derive(Debug)]
pub struct Ring<'a> {
    bytes: NonNull<u8>,
    slots: u32,
    payload: usize,
    lent: PhantomData<&'a mut [u8]>,
}

impl<'a> Ring<'a> {
    /// Bytes that one slot takes whose frames carry `payload` bytes.
    pub const fn stride(payload: usize) -> usize {
        HEAD + payload.next_multiple_of(8)
    }

    /// Slots in `bytes`, each for `payload` bytes; `None` unless their number is a power of two from 1 to 2^30: only
    /// then does a number that wraps around keep its slot.
    pub fn new(bytes: &'a mut [u8], payload: usize) -> Option<Self> {
        let length = bytes.len();
        // SAFETY: lent for as long, and to nobody else.
        unsafe { Self::at(NonNull::from(bytes).cast(), length, payload) }
    }

    /// The same in memory that others use as well.
    ///
    /// # Safety
    /// `length` bytes from `bytes` on stay mapped for `'a`, and nobody else touches a slot while this ring is asked about
    /// it or fills it.
    pub(in crate::netctx) unsafe fn at(
        bytes: NonNull<u8>,
        length: usize,
        payload: usize,
    ) -> Option<Self> {
        let stride = Self::stride(payload);
        let slots = u32::try_from(length / stride).ok()?;
        let fits = slots.is_power_of_two() && slots <= 1 << 30;
        fits.then_some(Self {
            bytes,
            slots,
            payload,
            lent: PhantomData,
        })
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The most bytes that a slot holds.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// Where a slot begins: always one of the ring, whatever the number.
    fn begin(&self, sequence: u32) -> NonNull<u8> {
        let place = (sequence & (self.slots - 1)) as usize * Self::stride(self.payload);
        // SAFETY: there are as many bytes as `slots` slots take.
        unsafe { self.bytes.add(place) }
    }

    fn slot(&self, sequence: u32) -> &[u8] {
        // SAFETY: within the memory that is lent; nobody changes this slot meanwhile.
        unsafe {
            std::slice::from_raw_parts(self.begin(sequence).as_ptr(), Self::stride(self.payload))
        }
    }

    fn slot_mut(&mut self, sequence: u32) -> &mut [u8] {
        // SAFETY: within the memory that is lent; nobody else touches this slot meanwhile.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.begin(sequence).as_ptr(),
                Self::stride(self.payload),
            )
        }
    }

    /// The bytes of a slot that hold its frame: whole words.
    pub(in crate::netctx) fn used(&self, sequence: u32) -> &[u8] {
        let slot = self.slot(sequence);
        &slot[..HEAD + self.length(slot).next_multiple_of(8)]
    }

    /// Puts a frame back for which [`used`](Self::used) gave the first of these bytes; gives the others.
    pub(in crate::netctx) fn refill<'b>(&mut self, sequence: u32, used: &'b [u8]) -> &'b [u8] {
        let length = HEAD + self.length(used).next_multiple_of(8);
        // Fewer where a rank that went astray wrote while they were copied.
        let length = length.min(used.len());
        self.slot_mut(sequence)[..length].copy_from_slice(&used[..length]);
        &used[length..]
    }

    fn length(&self, slot: &[u8]) -> usize {
        let raw = slot.first_chunk().copied().unwrap_or_default();
        (u32::from_le_bytes(raw) as usize).min(self.payload())
    }

    /// Puts a frame into its slot; false if it is too long for one.
    pub fn put(&mut self, sequence: u32, end: bool, content: &[u8]) -> bool {
        self.put_parts(sequence, end, [content, &[]])
    }

    /// The same of a frame in two parts.
    pub(in crate::netctx) fn put_parts(
        &mut self,
        sequence: u32,
        end: bool,
        [first, second]: [&[u8]; 2],
    ) -> bool {
        let length = first.len() + second.len();
        if length > self.payload() {
            return false;
        }
        let slot = self.slot_mut(sequence);
        slot[..4].copy_from_slice(&(length as u32).to_le_bytes());
        slot[4..HEAD].copy_from_slice(&u32::from(end).to_le_bytes());
        slot[HEAD..HEAD + first.len()].copy_from_slice(first);
        slot[HEAD + first.len()..HEAD + length].copy_from_slice(second);
        true
    }

    /// The content of a slot, and whether it ends a message.
    pub fn get(&self, sequence: u32) -> (&[u8], bool) {
        let slot = self.slot(sequence);
        (&slot[HEAD..HEAD + self.length(slot)], slot[4] != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_takes_as_many_bytes_as_asked_for_and_not_its_padding() {
        let mut bytes = vec![0; 2 * Ring::stride(13)];
        let mut ring = Ring::new(&mut bytes, 13).expect("two slots");
        assert_eq!((ring.slots(), ring.payload()), (2, 13));
        assert!(ring.put(1, true, &[7; 13]) && !ring.put(0, true, &[7; 14]));
        assert_eq!(ring.get(1), (&[7; 13][..], true));
    }
}
