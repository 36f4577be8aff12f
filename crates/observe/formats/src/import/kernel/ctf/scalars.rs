//! Attributes of integers and floating-point numbers, from the words of the metadata.

use super::declare::Declarer;
use super::types::{Int, Order, Type};
use super::words::{Fault, Word};
use std::rc::Rc;

/// Largest alignment, in bits: a page of 128 KiB.
const LARGEST_ALIGN: i128 = 1 << 20;
/// Largest floating-point number, in bits.
const LARGEST_FLOAT: i128 = 128;

impl Declarer<'_> {
    /// Attributes up to the closing brace: `KEY = VALUE;`. `take` says whether it used one; others
    /// are skipped.
    pub(super) fn attributes(
        &mut self,
        mut take: impl FnMut(&mut Self, &str) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        while !self.words.sign("}")? {
            let key = self.words.any_name()?;
            self.words.expect("=")?;
            if !take(self, key)? {
                while !matches!(self.words.peek(), Word::Sign(";" | "}") | Word::End) {
                    self.words.take()?;
                }
            }
            self.words.expect(";")?;
        }
        Ok(())
    }

    pub(super) fn integer(&mut self) -> Result<Int, Fault> {
        let (mut size, mut align, mut signed, mut order, mut clock) =
            (None, None, false, Order::Native, None);
        self.words.expect("{")?;
        self.attributes(|all, key| {
            match key {
                "size" => size = Some(all.within(1, 64, "bits of an integer")? as u32),
                "align" => align = Some(all.align()?),
                "signed" => signed = all.truth()?,
                "byte_order" => order = all.order()?,
                "map" => clock = all.clock()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let Some(size) = size else {
            return self.words.fault("an integer has no size");
        };
        Ok(Int {
            size,
            align: align.unwrap_or(usual_align(size)),
            signed,
            order,
            clock,
        })
    }

    pub(super) fn floating_point(&mut self) -> Result<Type, Fault> {
        let (mut exponent, mut mantissa, mut align) = (None, None, None);
        self.words.expect("{")?;
        let bits = |all: &mut Self| all.within(1, LARGEST_FLOAT, "bits of a number");
        self.attributes(|all, key| {
            match key {
                "exp_dig" => exponent = Some(bits(all)? as u32),
                "mant_dig" => mantissa = Some(bits(all)? as u32),
                "align" => align = Some(all.align()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let (Some(exponent), Some(mantissa)) = (exponent, mantissa) else {
            return self.words.fault("a floating-point number has no size");
        };
        let size = exponent + mantissa;
        Ok(Type::Float(size, align.unwrap_or(usual_align(size))))
    }

    fn within(&mut self, least: i128, most: i128, what: &str) -> Result<i128, Fault> {
        let number = self.words.number()?;
        match (least..=most).contains(&number) {
            true => Ok(number),
            false => self.words.fault(format!(
                "{number} {what} are not supported, only {least} to {most}"
            )),
        }
    }

    pub(super) fn align(&mut self) -> Result<u64, Fault> {
        let align = self.within(1, LARGEST_ALIGN, "bits of alignment")? as u64;
        match align.is_power_of_two() {
            true => Ok(align),
            false => self.words.fault("an alignment is a power of two"),
        }
    }

    fn truth(&mut self) -> Result<bool, Fault> {
        match self.words.take()? {
            Word::Name("true" | "TRUE") | Word::Number(1) => Ok(true),
            Word::Name("false" | "FALSE") | Word::Number(0) => Ok(false),
            other => self
                .words
                .fault(format!("{other} is neither true nor false")),
        }
    }

    fn order(&mut self) -> Result<Order, Fault> {
        match self.words.take()? {
            // perf writes `unknown` if it never learnt the order, in a trace without streams.
            Word::Name("native" | "unknown") => Ok(Order::Native),
            Word::Name("le") => Ok(Order::Little),
            Word::Name("be" | "network") => Ok(Order::Big),
            other => self.words.fault(format!("{other} is no byte order")),
        }
    }

    /// `clock.NAME.value`
    fn clock(&mut self) -> Result<Option<Rc<str>>, Fault> {
        let path = self.path()?;
        match path.as_slice() {
            [clock, name, value] if clock == "clock" && value == "value" => {
                Ok(Some(name.as_str().into()))
            }
            _ => self.words.fault("an integer is mapped to what is no clock"),
        }
    }
}

/// The alignment if none is declared.
fn usual_align(size: u32) -> u64 {
    if size % 8 == 0 { 8 } else { 1 }
}
