//! The names in scope at a point of a program, with fast lookup.

use std::collections::HashMap;
use std::hash::Hash;

/// Names, each once, with their meanings. Those of a block end with it.
pub(super) struct Names<K, V> {
    meanings: HashMap<K, V>,
    /// In the order of their definitions.
    order: Vec<K>,
}

impl<K: Copy + Eq + Hash, V: Copy> Names<K, V> {
    pub fn new() -> Self {
        Names {
            meanings: HashMap::new(),
            order: Vec::new(),
        }
    }

    pub fn get(&self, name: K) -> Option<V> {
        self.meanings.get(&name).copied()
    }

    /// Defines a name from here on; a name already defined keeps its first meaning.
    pub fn define(&mut self, name: K, meaning: V) {
        if let std::collections::hash_map::Entry::Vacant(entry) = self.meanings.entry(name) {
            entry.insert(meaning);
            self.order.push(name);
        }
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Forgets all but the first `count` names.
    pub fn truncate(&mut self, count: usize) {
        for name in self.order.drain(count.min(self.order.len())..) {
            self.meanings.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::hash::Hasher;

    thread_local! {
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// A name that counts how often it is compared.
    #[derive(Clone, Copy)]
    struct Counted(u32);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn a_name_is_found_without_looking_at_all_of_them() {
        const COUNT: u32 = 20_000;
        let mut names = Names::new();
        for number in 0..COUNT {
            names.define(Counted(number), number);
            assert_eq!(names.get(Counted(number)), Some(number));
        }
        names.truncate(COUNT as usize / 2);
        assert_eq!(names.len(), COUNT as usize / 2);
        assert_eq!(names.get(Counted(COUNT / 2)), None);
        assert_eq!(names.get(Counted(COUNT / 2 - 1)), Some(COUNT / 2 - 1));
        // A linear search would take 200 million.
        assert!(COMPARED.get() < 10 * u64::from(COUNT), "{}", COMPARED.get());
    }
}
