//! Memory of the queue's buckets: blocks that move from one bucket to another.

/// Events per block: 1 KiB.
pub(super) const BLOCK: usize = 64;

const NONE: u32 = u32::MAX;

/// An unordered set of events.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    pub count: usize,
    /// The block being filled; the blocks before it are full.
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
            // Grows by a sixteenth instead of doubling: growth is rare, and idle memory counts.
            self.events.reserve_exact((count / 16).max(16));
        }
        self.events.push([0; BLOCK]);
        self.before.push(NONE);
        // Far below 2^32: there are fewer events than that.
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

    /// The smallest event of a bucket; 0 if it is empty.
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
