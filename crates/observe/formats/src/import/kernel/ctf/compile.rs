//! From types to steps.

use super::code::{Chars, Code, Count, Number, Step, Table};
use super::types::{Enum, Int, Length, Order, Row, Struct, Type, Variant, bare};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// Limit on the fields of all types of a trace, counting elements of arrays, and options with their
/// ranges. LTTng's descriptions of all kernel events have some ten thousand.
const MOST_FIELDS: usize = 1 << 19;

/// A field of a type that was turned into steps.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The step that reads it; `None` if it is not one number or text.
    step: Option<usize>,
    /// Names of its numbers.
    names: Option<Rc<Enum>>,
    inner: Rc<Scope>,
}

/// Fields by name; of several with one name, the last.
pub(crate) type Scope = HashMap<Rc<str>, Field>;

/// The field of this name, which may have an underscore before it.
pub(crate) fn field<'s>(scope: &'s Scope, name: &str) -> Option<&'s Field> {
    scope
        .get(name)
        .or_else(|| scope.get(format!("_{name}").as_str()))
}

/// Turns types into steps.
pub(crate) struct Compiler {
    pub(crate) code: Code,
    /// Whether numbers are big-endian unless they say otherwise.
    big: bool,
    pub(crate) numbers: Number,
    pub(crate) texts: Chars,
    fields: usize,
    /// Complete types, which later ones may refer to, by the start of the path.
    roots: Vec<(&'static str, Rc<Scope>)>,
    /// The type that is not yet complete, and the fields so far of what is open in it, the
    /// outermost first.
    root: &'static str,
    open: Vec<Scope>,
    /// The clock of the event stamps, if they name one.
    pub(crate) clock: Option<Rc<str>>,
}

/// What cannot be turned into steps, in words.
type Refused = String;

impl Compiler {
    pub(crate) fn new(big: bool) -> Self {
        Self {
            code: Code::default(),
            big,
            numbers: 0,
            texts: 0,
            fields: 0,
            roots: Vec::new(),
            root: "",
            open: Vec::new(),
            clock: None,
        }
    }

    /// Steps of a type that later types can refer to as `root`.
    pub(crate) fn root(
        &mut self,
        root: &'static str,
        of: Option<&Type>,
    ) -> Result<Range<u32>, Refused> {
        let begin = self.here();
        self.root = root;
        self.open.clear();
        let inner = match of {
            None => Rc::default(),
            Some(Type::Struct(of)) => self.structure(of)?,
            Some(_) => return Err(format!("{root} is no structure")),
        };
        self.roots.push((root, inner));
        Ok(begin..self.here())
    }

    /// The fields of a type that is known.
    pub(crate) fn fields_of(&self, root: &str) -> Rc<Scope> {
        let found = self.roots.iter().find(|(name, _)| *name == root);
        found.map(|(_, scope)| scope.clone()).unwrap_or_default()
    }

    /// Forgets all types but the first ones.
    pub(crate) fn forget(&mut self, keep: usize) {
        self.roots.truncate(keep);
    }

    /// The place for the number of a field, and whether it has a sign; `None` if the field is no
    /// number.
    pub(crate) fn number(&mut self, field: &Field) -> Option<(Number, bool)> {
        let Step::Int { to, signed, .. } = &mut self.code.steps[field.step?] else {
            return None;
        };
        let next = &mut self.numbers;
        let place = to.get_or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        Some((*place, *signed))
    }

    /// The place for the text of a field; `None` if the field is no text.
    pub(crate) fn text(&mut self, field: &Field) -> Option<Chars> {
        let to = match &mut self.code.steps[field.step?] {
            Step::Text { to } => to,
            Step::Row { to, size: 8, .. } => to,
            _ => return None,
        };
        let next = &mut self.texts;
        Some(*to.get_or_insert_with(|| {
            *next += 1;
            *next - 1
        }))
    }

    fn here(&self) -> u32 {
        self.code.steps.len() as u32
    }

    fn push(&mut self, step: Step) -> usize {
        self.code.steps.push(step);
        self.code.steps.len() - 1
    }

    fn structure(&mut self, of: &Struct) -> Result<Rc<Scope>, Refused> {
        if of.align > 1 {
            self.push(Step::Align(of.align));
        }
        self.open.push(Scope::new());
        for (name, of) in &of.fields {
            self.any(name, of)?;
        }
        Ok(self.close())
    }

    /// Closes the innermost open type and returns its fields.
    fn close(&mut self) -> Rc<Scope> {
        Rc::new(self.open.pop().unwrap_or_default())
    }

    fn count(&mut self, fields: usize) -> Result<(), Refused> {
        self.fields += fields;
        match self.fields > MOST_FIELDS {
            true => Err("its types have too many fields".to_owned()),
            false => Ok(()),
        }
    }

    fn any(&mut self, name: &Rc<str>, of: &Type) -> Result<(), Refused> {
        self.count(1)?;
        let mut field = Field {
            step: None,
            names: None,
            inner: Rc::default(),
        };
        match of {
            Type::Int(int) => field.step = Some(self.int(int)),
            Type::Float(size, align) => {
                self.push(Step::Bits {
                    size: u64::from(*size),
                    align: *align,
                });
            }
            Type::Text => field.step = Some(self.push(Step::Text { to: None })),
            Type::Enum(of) => {
                field.step = Some(self.int(&of.container));
                field.names = Some(of.clone());
            }
            Type::Struct(of) => field.inner = self.structure(of)?,
            Type::Variant(of) => field.inner = self.variant(of)?,
            Type::Row(of) => field.step = self.row(of)?,
        }
        if self.root == HEADER {
            self.mark(name, &field, of)?;
        }
        if let Some(open) = self.open.last_mut() {
            open.insert(name.clone(), field);
        }
        Ok(())
    }

    fn int(&mut self, of: &Int) -> usize {
        self.push(Step::Int {
            size: of.size,
            align: of.align,
            signed: of.signed,
            big: match of.order {
                Order::Native => self.big,
                order => order == Order::Big,
            },
            to: None,
        })
    }

    /// Adds steps for the number and the time in the header of an event.
    fn mark(&mut self, name: &str, field: &Field, of: &Type) -> Result<(), Refused> {
        let (Some(int), Some((from, _))) = (of.int(), self.number(field)) else {
            return Ok(());
        };
        if name == "id" {
            self.push(Step::Event { from });
        }
        if int.clock.is_some() || name == "timestamp" {
            let size = int.size;
            self.push(Step::Clock { from, size });
        }
        if let Some(clock) = &int.clock {
            if self.clock.get_or_insert_with(|| clock.clone()) != clock {
                return Err("its events have times of several clocks".to_owned());
            }
        }
        Ok(())
    }

    fn row(&mut self, of: &Row) -> Result<Option<usize>, Refused> {
        let count = match &of.length {
            Length::Fixed(count) => Count::Fixed(*count),
            Length::Told(path) => {
                let field = self.find(path)?;
                let told = self.number(&field);
                Count::Told(told.ok_or_else(|| no_number(path))?.0)
            }
        };
        let whole = |int: &&Int| u64::from(int.size) % int.align == 0;
        if let Some(int) = of.element.int().filter(whole) {
            return Ok(Some(self.push(Step::Row {
                count,
                size: int.size,
                align: int.align,
                to: None,
            })));
        }
        // Empty rows are aligned too.
        let align = of.element.align();
        if align > 1 {
            self.push(Step::Align(align));
        }
        let repeat = self.push(Step::Repeat { count, steps: 0 });
        self.open.push(Scope::new());
        self.any(&"".into(), &of.element)?;
        self.open.pop();
        let length = self.here() - repeat as u32 - 1;
        if let Step::Repeat { steps, .. } = &mut self.code.steps[repeat] {
            *steps = length;
        }
        Ok(None)
    }

    fn variant(&mut self, of: &Variant) -> Result<Rc<Scope>, Refused> {
        let tag = of.tag.as_ref().ok_or("a variant has no tag")?;
        let field = self.find(tag)?;
        let (Some((number, signed)), Some(names)) = (self.number(&field), field.names) else {
            return Err(format!("`{}` is no enumeration", tag.join(".")));
        };
        let table = self.code.tables.len() as u32;
        self.code.tables.push(Table {
            tag: number,
            signed,
            cases: Vec::new(),
        });
        let choose = self.push(Step::Choose { table, steps: 0 });
        self.open.push(Scope::new());
        let mut cases = Vec::new();
        for (name, option) in &*of.options {
            let begin = self.here();
            self.any(name, option)?;
            let steps = begin..self.here();
            let ranges = names.ranges.get(bare(name)).map_or(&[][..], Vec::as_slice);
            self.count(ranges.len())?;
            cases.extend(ranges.iter().map(|(a, b)| (*a, *b, steps.clone())));
        }
        cases.sort_by_key(|(first, ..)| *first);
        let length = self.here() - choose as u32 - 1;
        if let Step::Choose { steps, .. } = &mut self.code.steps[choose] {
            *steps = length;
        }
        self.code.tables[table as usize].cases = cases;
        Ok(self.close())
    }

    /// The field that a path leads to: from one of the roots; else from the innermost open type
    /// outwards, and then from the roots, the latest first.
    fn find(&self, path: &[String]) -> Result<Field, Refused> {
        let whole = path.join(".");
        let roots = self.roots.iter().map(|(root, scope)| (*root, &**scope));
        let current = self.open.first().map(|scope| (self.root, scope));
        let by_root = roots.clone().chain(current).find_map(|(root, scope)| {
            let rest = whole.strip_prefix(root)?.strip_prefix('.')?;
            descend(scope, rest)
        });
        let outwards = self.open.iter().rev();
        let mut places = outwards.chain(roots.rev().map(|(_, scope)| scope));
        let found = by_root.or_else(|| places.find_map(|scope| descend(scope, &whole)));
        found
            .cloned()
            .ok_or_else(|| format!("there is no field `{whole}` before it is needed"))
    }

    /// Merges steps whose values are not needed, once all types are complete.
    pub(crate) fn condense(&mut self, steps: Range<u32>) {
        let mut known = Known::nothing();
        let mut at = steps.start;
        while at < steps.end {
            let (bits, after, known_after) = self.fixed(at..steps.end, known);
            if after > at {
                let steps = after - at;
                self.code.steps[at as usize] = Step::Skip { bits, steps };
                (at, known) = (after, known_after);
                continue;
            }
            let step = self.code.steps[at as usize].clone();
            at += 1;
            known = match step {
                Step::Align(align) => known.aligned(align).1,
                Step::Int { size, align, .. } => known.aligned(align).1.moved(u64::from(size)),
                Step::Bits { size, align } => known.aligned(align).1.moved(size),
                Step::Text { .. } => Known { of: 8, rest: 0 },
                Step::Clock { .. } | Step::Event { .. } => known,
                Step::Row { .. } | Step::Skip { .. } => Known::nothing(),
                Step::Repeat { steps, .. } => {
                    self.condense(at..at + steps);
                    at += steps;
                    Known::nothing()
                }
                Step::Choose { table, steps } => {
                    let cases = self.code.tables[table as usize].cases.iter();
                    // Several ranges may choose the same steps.
                    let cases: BTreeSet<_> = cases.map(|(.., s)| (s.start, s.end)).collect();
                    for (start, end) in cases {
                        self.condense(start..end);
                    }
                    at += steps;
                    Known::nothing()
                }
            };
        }
    }

    /// The bits of the leading steps that have a known size and whose values are not needed. Also
    /// the first step after them, and what is known of the position there.
    fn fixed(&self, steps: Range<u32>, known: Known) -> (u64, u32, Known) {
        let (mut bits, mut at, mut known) = (0_u64, steps.start, known);
        while at < steps.end {
            let (size, align) = match self.code.steps[at as usize] {
                Step::Align(align) => (0, align),
                Step::Int {
                    size,
                    align,
                    to: None,
                    ..
                } => (u64::from(size), align),
                Step::Bits { size, align } => (size, align),
                Step::Row {
                    count: Count::Fixed(count),
                    size,
                    align,
                    to: None,
                } => match count.checked_mul(u64::from(size)) {
                    Some(bits) => (bits, align),
                    None => break,
                },
                _ => break,
            };
            let (Some(padding), aligned) = known.aligned(align) else {
                break;
            };
            match bits.checked_add(padding).and_then(|b| b.checked_add(size)) {
                Some(sum) => bits = sum,
                None => break,
            }
            known = aligned.moved(size);
            at += 1;
        }
        (bits, at, known)
    }
}

/// The root of the header of an event.
pub(crate) const HEADER: &str = "stream.event.header";

fn no_number(path: &[String]) -> Refused {
    format!("`{}` is no number", path.join("."))
}

/// The field that a path of names with dots leads to.
fn descend<'s>(scope: &'s Scope, path: &str) -> Option<&'s Field> {
    match path.split_once('.') {
        Some((first, rest)) => descend(&scope.get(first)?.inner, rest),
        None => scope.get(path),
    }
}

/// What is known of a position in a packet: its remainder modulo a power of two.
#[derive(Clone, Copy)]
struct Known {
    of: u64,
    rest: u64,
}

impl Known {
    fn nothing() -> Self {
        Self { of: 1, rest: 0 }
    }

    /// Bits up to the next multiple of `align`, if known, and what is known of the position there.
    fn aligned(self, align: u64) -> (Option<u64>, Self) {
        match align <= self.of {
            true => {
                let padding = self.rest.wrapping_neg() & (align - 1);
                (Some(padding), self.moved(padding))
            }
            false => (None, Self { of: align, rest: 0 }),
        }
    }

    fn moved(self, bits: u64) -> Self {
        let rest = self.rest.wrapping_add(bits) & (self.of - 1);
        Self { rest, ..self }
    }
}
