//! Keys and values of the JSON that are kept, whatever type they have.

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A key of an object, as one of a list.
pub(super) struct Key<T: 'static>(pub &'static [(&'static str, T)]);

impl<'de, T: Copy> DeserializeSeed<'de> for Key<T> {
    type Value = Option<T>;
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Option<T>, D::Error> {
        json.deserialize_identifier(self)
    }
}

impl<T: Copy> Visitor<'_> for Key<T> {
    type Value = Option<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E>(self, key: &str) -> Result<Option<T>, E> {
        Ok(self
            .0
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, field)| *field))
    }
}

/// A value of any type, kept where it has the type that is wanted.
#[derive(Default)]
pub(super) struct Loose<'e> {
    pub text: Option<&'e mut String>,
    pub number: Option<&'e mut Option<f64>>,
    pub numbers: Option<&'e mut Vec<f64>>,
    /// Each element as a number, if it is one or a text that says one.
    pub inputs: Option<&'e mut Vec<Option<f64>>>,
}

impl<'e> Loose<'e> {
    pub(super) fn text(text: &'e mut String) -> Self {
        Self {
            text: Some(text),
            ..Self::default()
        }
    }

    pub(super) fn number(number: &'e mut Option<f64>) -> Self {
        Self {
            number: Some(number),
            ..Self::default()
        }
    }
}

impl<'de> DeserializeSeed<'de> for Loose<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let Self {
            text: None,
            number: None,
            numbers: None,
            inputs: None,
        } = self
        else {
            return json.deserialize_any(self);
        };
        json.deserialize_ignored_any(IgnoredAny).map(|_| ())
    }
}

/// The most elements of a list that are kept.
const MOST_ELEMENTS: usize = 1 << 16;

impl<'de> Visitor<'de> for Loose<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        if let Some(text) = self.text {
            text.clear();
            text.push_str(value);
        } else if let Some(number) = self.number {
            *number = None;
        }
        Ok(())
    }
    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        if let Some(number) = self.number {
            *number = Some(value);
        } else if let Some(text) = self.text {
            *text = value.to_string();
        }
        Ok(())
    }
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        if let Some(numbers) = self.numbers {
            let mut number = None;
            while list
                .next_element_seed(Loose::number(&mut number))?
                .is_some()
            {
                numbers.extend(number.take().filter(|_| numbers.len() < MOST_ELEMENTS));
            }
        } else if let Some(inputs) = self.inputs {
            let mut text = String::new();
            while list.next_element_seed(Loose::text(&mut text))?.is_some() {
                if inputs.len() < MOST_ELEMENTS {
                    inputs.push(text.parse().ok());
                }
                text.clear();
            }
        } else {
            while list.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(())
    }
}
