//! Memory of the buckets of events: blocks that go from one to the other.

/// Events of a block: 1 KiB.
pub(super) const BLOCK: usize = 64;

const NONE: u32 = u32::MAX;

/// Events without order.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    pub count: usize,
    /// The block that is being filled; before it come full ones.
    last: u32,
}

impl Bucket {
    pub const EMPTY: Bucket = Bucket {
        count: 0,
        last: NONE,
    };

    /// Events in the last block.
    fn filled(&self) -> usize {
        match self.count % BLOCK {
            0 if self.count > 0 => BLOCK,
            filled => filled,
        }
    }
}

#[derive(Default)]
pub(super) struct Blocks {
    events: Vec<[u128; BLOCK]>,
    /// The block before each one.
    before: Vec<u32>,
    free: Vec<u32>,
}

impl Blocks {
    #[inline]
    pub fn push(&mut self, bucket: &mut Bucket, event: u128) {
        let at = bucket.count % BLOCK;
        if at == 0 {
            let block = self.free.pop().unwrap_or_else(|| self.grow());
            self.before[block as usize] = bucket.last;
            bucket.last = block;
        }
        self.events[bucket.last as usize][at] = event;
        bucket.count += 1;
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let count = self.events.len();
        if count == self.events.capacity() {
            // A sixteenth more and not twice as much: it happens rarely, and what lies idle counts.
            self.events.reserve_exact((count / 16).max(16));
        }
        self.events.push([0; BLOCK]);
        self.before.push(NONE);
        // Far fewer than 2^32: there are fewer events.
        count as u32
    }

    /// The events of the last block of a bucket.
    pub fn last_of(&self, bucket: &Bucket) -> Option<&[u128]> {
        let block = self.events.get(bucket.last as usize)?;
        Some(&block[..bucket.filled()])
    }

    /// Frees the last block of a bucket.
    pub fn drop_last_of(&mut self, bucket: &mut Bucket) {
        bucket.count -= bucket.filled();
        self.free.push(bucket.last);
        bucket.last = self.before[bucket.last as usize];
    }

    /// The least event of a bucket; 0 of an empty one.
    pub fn least_of(&self, bucket: &Bucket) -> u128 {
        let mut rest = *bucket;
        let mut least = None;
        while let Some(events) = self.last_of(&rest) {
            least = events.iter().copied().chain(least).min();
            rest.count -= rest.filled();
            rest.last = self.before[rest.last as usize];
        }
        least.unwrap_or(0)
    }
}
