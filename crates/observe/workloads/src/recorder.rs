//! From a measuring thread to the collector: preallocated chunks over two lock-free queues.

use crossbeam_queue::ArrayQueue;
use std::sync::Arc;

/// The measuring thread's end. Pushing touches only memory touched before, makes no system call and
/// never waits; it counts what finds no room.
#[derive(Debug)]
pub struct Recorder<T> {
    current: Vec<T>,
    lost: u64,
    queues: Arc<Queues<T>>,
}

/// The collector's end.
#[derive(Debug)]
pub struct Collector<T> {
    queues: Arc<Queues<T>>,
}

#[derive(Debug)]
struct Queues<T> {
    free: ArrayQueue<Vec<T>>,
    full: ArrayQueue<Vec<T>>,
}

/// A channel of `chunks` chunks, at least two, with room for `items` each.
pub fn channel<T: Copy + Default>(chunks: usize, items: usize) -> (Recorder<T>, Collector<T>) {
    let chunks = chunks.max(2);
    let queues = Arc::new(Queues {
        free: ArrayQueue::new(chunks),
        full: ArrayQueue::new(chunks),
    });
    let chunk = || {
        // Writing the items touches every page.
        let mut items = vec![T::default(); items.max(1)];
        std::hint::black_box(items.as_mut_ptr());
        items.clear();
        items
    };
    for _ in 1..chunks {
        // The queue has room for all of them.
        let _ = queues.free.push(chunk());
    }
    (
        Recorder {
            current: chunk(),
            lost: 0,
            queues: Arc::clone(&queues),
        },
        Collector { queues },
    )
}

impl<T: Copy> Recorder<T> {
    /// Records an item, or counts it as lost if the collector lags too far behind.
    #[inline]
    pub fn push(&mut self, item: T) {
        if self.current.len() == self.current.capacity() && !self.exchange() {
            self.lost += 1;
            return;
        }
        self.current.push(item);
    }

    /// Records the next item of a series: once one finds no room, all later ones are lost, so that
    /// an item's position is its number.
    #[inline]
    pub fn push_next(&mut self, item: T) {
        if self.lost > 0 {
            self.lost += 1;
        } else {
            self.push(item);
        }
    }

    #[cold]
    fn exchange(&mut self) -> bool {
        let Some(empty) = self.queues.free.pop() else {
            return false;
        };
        let full = std::mem::replace(&mut self.current, empty);
        // There are no more chunks than places, so there is room.
        let _ = self.queues.full.push(full);
        true
    }

    /// Items that found no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Hands the last chunk to the collector.
    pub fn finish(&mut self) {
        let last = std::mem::take(&mut self.current);
        // As above.
        let _ = self.queues.full.push(last);
    }
}

impl<T: Copy> Collector<T> {
    /// Passes on every full chunk, oldest first.
    pub fn drain(&self, mut take: impl FnMut(&[T])) {
        while let Some(mut chunk) = self.queues.full.pop() {
            take(&chunk);
            chunk.clear();
            // As above.
            let _ = self.queues.free.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_arrive_in_order_and_none_is_lost_if_the_collector_keeps_up() {
        let (mut recorder, collector) = channel::<u64>(4, 10);
        let mut seen = Vec::new();
        for i in 0..1_000 {
            recorder.push(i);
            if i % 15 == 0 {
                collector.drain(|chunk| seen.extend_from_slice(chunk));
            }
        }
        recorder.finish();
        collector.drain(|chunk| seen.extend_from_slice(chunk));
        assert!(seen.iter().copied().eq(0..1_000));
        assert_eq!(recorder.lost(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let (mut recorder, collector) = channel::<u64>(3, 10);
        for i in 0..100 {
            recorder.push(i);
        }
        assert_eq!(recorder.lost(), 70);
        recorder.finish();
        let mut seen = 0;
        collector.drain(|chunk| seen += chunk.len());
        assert_eq!(seen, 30);
    }

    #[test]
    fn a_series_has_no_hole() {
        let (mut recorder, collector) = channel::<u64>(2, 10);
        let mut seen = Vec::new();
        for i in 0..100 {
            recorder.push_next(i);
            if i == 50 {
                collector.drain(|chunk| seen.extend_from_slice(chunk));
            }
        }
        recorder.finish();
        collector.drain(|chunk| seen.extend_from_slice(chunk));
        assert!(seen.iter().copied().eq(0..20));
        assert_eq!(recorder.lost(), 80);
    }
}
