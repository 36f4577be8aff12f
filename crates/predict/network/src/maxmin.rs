//! Max-min fair rates of flows that share resources.
//!
//! Flows with the same path and the same limit form a class; its flows have the same rate.
//! Progressive filling: all rates rise together until a resource is full or a class reaches its own
//! limit; those classes stop, the others continue to rise (D. Bertsekas, R. Gallager, "Data
//! Networks", 1992, section 6.5.2). If traffic is split over several paths, the rate is that of the
//! whole flow.
//!
//! Cost: about 10 ns per use. Each class is fixed once, each of its uses is visited a few times,
//! and each resource's share is recomputed a few times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Use of a resource by a class of flows: units per unit of its rate, above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Index of the resource.
    pub resource: u32,
    /// Units per unit of rate.
    pub share: f64,
}

/// What limits the rate of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The flows themselves.
    Own,
    /// This resource, by its index.
    Resource(u32),
}

/// The classes of flows on resources of fixed capacity.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    capacity: Vec<f64>,
    /// Where the uses of each class start in `uses`, then the end of the last class.
    begins: Vec<u32>,
    uses: Vec<Use>,
    limits: Vec<f64>,
    counts: Vec<u32>,
    rates: Vec<f64>,
    held: Vec<Limit>,
    /// Classes with flows, in any order; and for each of them, its index in `active`.
    active: Vec<u32>,
    places: Vec<u32>,
    work: Work,
}

/// Buffers of [`Sharing::solve`], kept between calls.
#[derive(Clone, Debug, Default)]
struct Work {
    /// For each resource: the capacity left, the demand per unit of rate of all classes that still
    /// rise, and the number of these classes.
    left: Vec<f64>,
    taken: Vec<f64>,
    rising: Vec<u32>,
    /// Resources in use.
    used: Vec<u32>,
    /// For each used resource, where its classes start and end in `users`.
    firsts: Vec<u32>,
    ends: Vec<u32>,
    users: Vec<u32>,
    heap: BinaryHeap<Full>,
    by_limit: Vec<u32>,
    fixed: Vec<bool>,
}

/// A resource that fills up when all rates reach `level`. On a max-heap the lowest level comes
/// first, then the lowest index.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Full {
    level: f64,
    resource: u32,
}

impl Eq for Full {}

impl Ord for Full {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .level
            .total_cmp(&self.level)
            .then(other.resource.cmp(&self.resource))
    }
}

impl PartialOrd for Full {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Sharing {
    /// Resources of these capacities, each above 0, in any unit per second.
    pub fn new(capacity: Vec<f64>) -> Self {
        let resources = capacity.len();
        Sharing {
            capacity,
            begins: vec![0],
            work: Work {
                left: vec![0.0; resources],
                taken: vec![0.0; resources],
                rising: vec![0; resources],
                firsts: vec![0; resources],
                ends: vec![0; resources],
                ..Work::default()
            },
            ..Sharing::default()
        }
    }

    /// Adds a class without flows: what one of its flows uses, each resource once, and its own
    /// limit (infinite for none).
    pub fn add_class(&mut self, uses: &[Use], limit: f64) -> u32 {
        let class = self.limits.len() as u32;
        self.uses.extend_from_slice(uses);
        self.begins.push(self.uses.len() as u32);
        self.limits.push(limit);
        self.counts.push(0);
        self.rates.push(0.0);
        self.held.push(Limit::Own);
        self.places.push(0);
        self.work.fixed.push(false);
        class
    }

    /// Adds a flow to a class. Rates do not change until [`solve`](Self::solve).
    pub fn start(&mut self, class: u32) {
        let at = class as usize;
        self.counts[at] += 1;
        if self.counts[at] == 1 {
            self.places[at] = self.active.len() as u32;
            self.active.push(class);
        }
    }

    /// Removes a flow from a class that has one.
    pub fn end(&mut self, class: u32) {
        let at = class as usize;
        self.counts[at] -= 1;
        if self.counts[at] == 0 {
            let place = self.places[at] as usize;
            self.active.swap_remove(place);
            if let Some(&moved) = self.active.get(place) {
                self.places[moved as usize] = place as u32;
            }
        }
    }

    /// Classes with flows.
    pub fn active(&self) -> &[u32] {
        &self.active
    }

    /// Flows of a class.
    pub fn flows(&self, class: u32) -> u32 {
        self.counts[class as usize]
    }

    /// Rate of each flow of a class, as of the last [`solve`](Self::solve).
    pub fn rate(&self, class: u32) -> f64 {
        self.rates[class as usize]
    }

    /// What limited that rate.
    pub fn limit(&self, class: u32) -> Limit {
        self.held[class as usize]
    }

    fn uses(&self, class: u32) -> &[Use] {
        let at = class as usize;
        &self.uses[self.begins[at] as usize..self.begins[at + 1] as usize]
    }

    /// Gives every flow its max-min fair rate.
    pub fn solve(&mut self) {
        let mut work = std::mem::take(&mut self.work);
        self.prepare(&mut work);
        let mut next = 0;
        loop {
            // Find the lowest own limit of a class that still rises.
            while next < work.by_limit.len() && work.fixed[work.by_limit[next] as usize] {
                next += 1;
            }
            let own = work.by_limit.get(next).copied();
            let own_level = own.map_or(f64::INFINITY, |class| self.limits[class as usize]);
            match fullest(&mut work) {
                Some(full) if full.level < own_level => {
                    let place = full.resource as usize;
                    for at in work.firsts[place]..work.ends[place] {
                        let class = work.users[at as usize];
                        if !work.fixed[class as usize] {
                            self.fix(&mut work, class, full.level, Limit::Resource(full.resource));
                        }
                    }
                }
                _ => match own {
                    Some(class) => self.fix(&mut work, class, own_level, Limit::Own),
                    None => break,
                },
            }
        }
        self.work = work;
    }

    /// Computes the demand on each resource, the classes of each resource, and the order of limits.
    fn prepare(&self, work: &mut Work) {
        work.used.clear();
        work.by_limit.clear();
        for &class in &self.active {
            work.fixed[class as usize] = false;
            work.by_limit.push(class);
            let count = f64::from(self.counts[class as usize]);
            for one in self.uses(class) {
                let at = one.resource as usize;
                if work.rising[at] == 0 {
                    work.used.push(one.resource);
                    work.left[at] = self.capacity[at];
                    work.taken[at] = 0.0;
                }
                work.rising[at] += 1;
                work.taken[at] += count * one.share;
            }
        }
        let mut place = 0;
        for &resource in &work.used {
            work.firsts[resource as usize] = place;
            work.ends[resource as usize] = place;
            place += work.rising[resource as usize];
        }
        work.users.resize(place as usize, 0);
        for &class in &self.active {
            for one in self.uses(class) {
                let end = &mut work.ends[one.resource as usize];
                work.users[*end as usize] = class;
                *end += 1;
            }
        }
        work.heap.clear();
        for &resource in &work.used {
            let level = work.left[resource as usize] / work.taken[resource as usize];
            work.heap.push(Full { level, resource });
        }
        let limits = &self.limits;
        let by = |a: &u32, b: &u32| {
            let level = limits[*a as usize].total_cmp(&limits[*b as usize]);
            level.then(a.cmp(b))
        };
        work.by_limit.sort_unstable_by(by);
    }

    fn fix(&mut self, work: &mut Work, class: u32, rate: f64, limit: Limit) {
        let at = class as usize;
        work.fixed[at] = true;
        self.rates[at] = rate;
        self.held[at] = limit;
        let count = f64::from(self.counts[at]);
        for one in self.uses(class) {
            let resource = one.resource as usize;
            let taken = count * one.share;
            work.rising[resource] -= 1;
            work.left[resource] = (work.left[resource] - taken * rate).max(0.0);
            work.taken[resource] -= taken;
        }
    }
}

/// The next resource to fill up, among those whose classes still rise. A level in the heap may be
/// stale, but only too low.
fn fullest(work: &mut Work) -> Option<Full> {
    while let Some(&top) = work.heap.peek() {
        let at = top.resource as usize;
        if work.rising[at] == 0 {
            work.heap.pop();
            continue;
        }
        let level = work.left[at] / work.taken[at];
        if level <= top.level {
            return Some(top);
        }
        work.heap.pop();
        work.heap.push(Full { level, ..top });
    }
    None
}

#[cfg(test)]
#[path = "maxmin_tests.rs"]
mod tests;
