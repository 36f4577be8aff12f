//! Values of the JSON: kept if they have the wanted type, skipped otherwise.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess};
use std::fmt;

/// Limit on the elements kept of a list: the members of the largest process group.
const MOST_ELEMENTS: usize = super::MOST_RANKS as usize;

/// Where a value goes.
pub(super) trait Place<'de>: Sized {
    fn text(self, _: &str) {}
    fn number(self, _: f64) {}
    fn count(self, count: u64) {
        self.number(count as f64);
    }
    fn list<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
    fn object<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// Puts a value of any type into a place.
pub(super) struct Any<P>(pub P);

impl<'de, P: Place<'de>> DeserializeSeed<'de> for Any<P> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, P: Place<'de>> serde::de::Visitor<'de> for Any<P> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.text(text);
        Ok(())
    }
    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.0.number(number);
        Ok(())
    }
    fn visit_u64<E>(self, count: u64) -> Result<(), E> {
        self.0.count(count);
        Ok(())
    }
    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.0.number(number as f64);
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<S: SeqAccess<'de>>(self, list: S) -> Result<(), S::Error> {
        self.0.list(list)
    }
    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<(), M::Error> {
        self.0.object(map)
    }
}

/// An object, read field by field.
pub(super) trait Fields<'de> {
    /// Its fields by name, all others as one.
    type Field: Deserialize<'de>;
    /// Reads the value of a field.
    fn take<M: MapAccess<'de>>(&mut self, field: Self::Field, map: &mut M) -> Result<(), M::Error>;
}

impl<'de, F: Fields<'de>> Place<'de> for &mut F {
    fn object<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(field) = map.next_key()? {
            self.take(field, &mut map)?;
        }
        Ok(())
    }
}

impl Place<'_> for &mut String {
    fn text(self, text: &str) {
        self.clear();
        self.push_str(text);
    }
    fn number(self, number: f64) {
        *self = number.to_string();
    }
}

impl Place<'_> for &mut Option<f64> {
    fn number(self, number: f64) {
        *self = Some(number);
    }
}

/// A count, exact over its whole range.
impl Place<'_> for &mut Option<u64> {
    fn count(self, count: u64) {
        *self = Some(count);
    }
}

/// Each element as a number, if it is one or a text that holds one.
impl<'de> Place<'de> for &mut Vec<Option<f64>> {
    fn list<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        let mut text = String::new();
        while list.next_element_seed(Any(&mut text))?.is_some() {
            if self.len() < MOST_ELEMENTS {
                self.push(text.parse().ok());
            }
            text.clear();
        }
        Ok(())
    }
}

/// Ranks as a list, or as a text such as `[0, 1]`.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks(Vec<Option<u32>>);

impl Ranks {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// All of them; `None` if there are none, or not all are known.
    pub(super) fn all(&self) -> Option<Vec<u32>> {
        let all: Option<Vec<u32>> = self.0.iter().copied().collect();
        all.filter(|all| !all.is_empty())
    }
}

impl<'de> Place<'de> for &mut Ranks {
    /// PyTorch writes only the first 30: `[0, 1, ...]`.
    fn text(self, text: &str) {
        let inner = text.trim_matches(['[', ']']);
        let ranks = inner.split(',').map(|rank| rank.trim().parse().ok());
        self.0 = ranks.take(MOST_ELEMENTS).collect();
    }
    fn list<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        self.0.clear();
        let mut rank = None::<u64>;
        while list.next_element_seed(Any(&mut rank))?.is_some() {
            let rank = rank.take().and_then(|rank| u32::try_from(rank).ok());
            if self.0.len() < MOST_ELEMENTS {
                self.0.push(rank);
            }
        }
        Ok(())
    }
}
