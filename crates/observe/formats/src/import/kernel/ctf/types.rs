//! Types of fields, as the metadata of a CTF trace declares them.

use std::collections::HashMap;
use std::rc::Rc;

/// Types nested deeper than this are not read: LTTng's have five levels.
pub(crate) const DEEPEST: u32 = 64;

/// Which end of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As the trace says.
    Native,
    Little,
    Big,
}

/// An integer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Int {
    /// Bits, 1..=64.
    pub(crate) size: u32,
    /// Bits, a power of two.
    pub(crate) align: u64,
    pub(crate) signed: bool,
    pub(crate) order: Order,
    /// The clock whose stamp it is.
    pub(crate) clock: Option<Rc<str>>,
}

/// An enumeration: numbers with names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Enum {
    pub(crate) container: Int,
    /// The ranges that a name stands for, by [`bare`] name.
    pub(crate) ranges: HashMap<String, Vec<(i128, i128)>>,
}

/// A name without the underscore that writers put before it to set it apart from words of the
/// language.
pub(crate) fn bare(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// Names and types, which later types may share.
pub(crate) type Fields = Vec<(Rc<str>, Type)>;

/// Fields one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Struct {
    pub(crate) fields: Fields,
    pub(crate) align: u64,
    pub(crate) depth: u32,
}

/// One of several fields, as the tag says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// Path of the enumeration that says which; `None` while only declared.
    pub(crate) tag: Option<Rc<Vec<String>>>,
    pub(crate) options: Rc<Fields>,
    pub(crate) depth: u32,
}

/// How many elements there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Fixed(u64),
    /// Path of the field that says it.
    Told(Vec<String>),
}

/// Elements one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) element: Type,
    pub(crate) length: Length,
    pub(crate) depth: u32,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Int(Int),
    /// Bits and alignment: the value of a floating-point number is never needed.
    Float(u32, u64),
    /// Bytes up to a zero.
    Text,
    Enum(Rc<Enum>),
    Struct(Rc<Struct>),
    Variant(Rc<Variant>),
    Row(Rc<Row>),
}

impl Type {
    /// The integer itself, or that of an enumeration.
    pub(crate) fn int(&self) -> Option<&Int> {
        match self {
            Self::Int(int) => Some(int),
            Self::Enum(of) => Some(&of.container),
            _ => None,
        }
    }

    /// Its position is a multiple of this many bits.
    pub(crate) fn align(&self) -> u64 {
        match self {
            Self::Int(int) => int.align,
            Self::Float(_, align) => *align,
            Self::Text => 8,
            Self::Enum(of) => of.container.align,
            Self::Struct(of) => of.align,
            // Only the chosen option is aligned.
            Self::Variant(_) => 1,
            Self::Row(of) => of.element.align(),
        }
    }

    /// Levels of types nested in it.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            Self::Int(_) | Self::Float(..) | Self::Text | Self::Enum(_) => 0,
            Self::Struct(of) => of.depth,
            Self::Variant(of) => of.depth,
            Self::Row(of) => of.depth,
        }
    }
}
