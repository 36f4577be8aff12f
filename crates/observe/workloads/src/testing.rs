//! Ranks as threads, for tests.

use idlewave_fabric::{Endpoint, Waiting, world};

/// What `body` returns on each rank of a world of threads.
pub fn on_ranks<R: Send>(size: u32, body: impl Fn(&mut Endpoint) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = world(size, Waiting::Yield)
            .into_iter()
            .map(|mut end| {
                let body = &body;
                scope.spawn(move || body(&mut end))
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}
