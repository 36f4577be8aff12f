//! Types from the words of the metadata. Names are declared before they are used, so one pass is
//! enough, and no type can hold itself.

use super::types::{DEEPEST, Enum, Fields, Length, Row, Struct, Type, Variant, bare};
use super::words::{Fault, Word, Words};
use std::collections::HashMap;
use std::rc::Rc;

/// Limit on the declared names: LTTng declares some ten thousand for all events of a kernel.
const MOST: usize = 1 << 20;
/// Words of which a C type name may have several.
const OF_C: &[&str] = &[
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

/// Names declared between two braces. For structures, variants and enumerations, that keyword comes
/// before the name.
type Names = HashMap<String, Type>;

/// Names in force, and the words.
pub(crate) struct Declarer<'t> {
    pub(crate) words: Words<'t>,
    scopes: Vec<Names>,
    /// Nesting of the type that is being read.
    depth: u32,
    /// Names declared so far.
    declared: usize,
}

impl<'t> Declarer<'t> {
    pub(crate) fn of(text: &'t str) -> Result<Self, Fault> {
        Ok(Self {
            words: Words::of(text)?,
            scopes: vec![Names::new()],
            depth: 0,
            declared: 0,
        })
    }

    /// Opens a scope: names declared from here on are valid until [`Self::close`].
    pub(crate) fn open(&mut self) {
        self.scopes.push(Names::new());
    }

    pub(crate) fn close(&mut self) {
        self.scopes.pop();
    }

    fn declare(&mut self, name: &str, of: Type) {
        if let Some(names) = self.scopes.last_mut() {
            names.insert(name.to_owned(), of);
        }
    }

    /// Declares a type under its name, if it has one.
    fn declared(&mut self, name: Option<String>, of: Type) -> Type {
        if let Some(name) = name {
            self.declare(&name, of.clone());
        }
        of
    }

    /// Counts declarations, because what is kept may be many times as long as the text.
    pub(crate) fn count(&mut self) -> Result<(), Fault> {
        self.declared += 1;
        match self.declared > MOST {
            true => self.words.fault("it declares too much"),
            false => Ok(()),
        }
    }

    fn find(&self, name: &str) -> Result<Type, Fault> {
        let found = self.scopes.iter().rev().find_map(|names| names.get(name));
        match found {
            Some(of) => Ok(of.clone()),
            None => self.words.fault(format!("there is no type `{name}`")),
        }
    }

    /// Reads a declaration of a type, if there is one here.
    pub(crate) fn declaration(&mut self) -> Result<bool, Fault> {
        if let Word::Name("struct" | "variant" | "enum") = self.words.peek() {
            self.any_type()?;
            self.words.expect(";")?;
            return Ok(true);
        }
        self.alias()
    }

    /// Reads a new name for a type, if there is one here.
    fn alias(&mut self) -> Result<bool, Fault> {
        if self.words.name("typealias")? {
            self.typealias()?;
        } else if self.words.name("typedef")? {
            self.typedef()?;
        } else {
            return Ok(false);
        }
        self.words.expect(";")?;
        Ok(true)
    }

    /// `typealias TYPE := NAME`, where the name may have several words.
    fn typealias(&mut self) -> Result<(), Fault> {
        let of = self.any_type()?;
        let of = self.dimensions(of)?;
        self.words.expect(":=")?;
        self.count()?;
        let mut name = Vec::new();
        loop {
            match self.words.peek() {
                Word::Name("const") => {}
                Word::Name(word) => name.push(*word),
                Word::Sign("*") => name.push("*"),
                _ if name.is_empty() => return self.words.fault("a name should stand here"),
                _ => break,
            }
            self.words.take()?;
        }
        self.declare(&name.join(" "), of);
        Ok(())
    }

    /// `typedef TYPE NAME, NAME..`, where each may be an array.
    fn typedef(&mut self) -> Result<(), Fault> {
        let of = self.any_type()?;
        loop {
            let (name, of) = self.declarator(of.clone())?;
            self.declare(&name, of);
            if !self.words.sign(",")? {
                return Ok(());
            }
        }
    }

    /// A type, by name or spelled out.
    pub(crate) fn any_type(&mut self) -> Result<Type, Fault> {
        if self.depth == DEEPEST {
            return self.words.fault("its types are nested too deeply");
        }
        self.depth += 1;
        let of = self.type_here()?;
        self.depth -= 1;
        Ok(of)
    }

    fn type_here(&mut self) -> Result<Type, Fault> {
        while self.words.name("const")? {}
        if self.words.name("integer")? {
            return Ok(Type::Int(self.integer()?));
        }
        if self.words.name("floating_point")? {
            return self.floating_point();
        }
        if self.words.name("string")? {
            if self.words.sign("{")? {
                self.attributes(|_, _| Ok(false))?;
            }
            return Ok(Type::Text);
        }
        for (word, body) in [
            ("enum", Self::enumeration as fn(&mut Self) -> _),
            ("struct", Self::structure),
            ("variant", Self::variant),
        ] {
            if self.words.name(word)? {
                return body(self);
            }
        }
        self.named()
    }

    /// A name of one word, or of several words in C, with stars.
    fn named(&mut self) -> Result<Type, Fault> {
        let mut name: Vec<&str> = Vec::new();
        while let Word::Name(word) = *self.words.peek() {
            let of_c = OF_C.contains(&word);
            match word {
                "const" => {}
                word if of_c || name.is_empty() => name.push(word),
                _ => break,
            }
            self.words.take()?;
            if !of_c && word != "const" {
                break;
            }
        }
        while self.words.sign("*")? {
            name.push("*");
        }
        match name.is_empty() {
            true => {
                let next = self.words.peek().to_string();
                self.words
                    .fault(format!("a type should stand before {next}"))
            }
            false => self.find(&name.join(" ")),
        }
    }

    /// `[NAME] [: TYPE] [{NAME = NUMBER ... NUMBER, ..}]`
    fn enumeration(&mut self) -> Result<Type, Fault> {
        let name = self.optional_name("enum")?;
        let container = match self.words.sign(":")? {
            true => Some(self.any_type()?),
            false => None,
        };
        if !self.words.sign("{")? {
            return match (name, container) {
                (Some(name), None) => self.find(&name),
                _ => self.words.fault("an enumeration has no names"),
            };
        }
        let container = match container {
            Some(of) => of,
            None => self.find("int")?,
        };
        let Some(container) = container.int().cloned() else {
            return self.words.fault("an enumeration is not of integers");
        };
        let ranges = self.ranges()?;
        let of = Type::Enum(Rc::new(Enum { container, ranges }));
        Ok(self.declared(name, of))
    }

    fn ranges(&mut self) -> Result<HashMap<String, Vec<(i128, i128)>>, Fault> {
        let (mut ranges, mut next) = (HashMap::<_, Vec<_>>::new(), 0_i128);
        while !self.words.sign("}")? {
            self.count()?;
            let name = match self.words.take()? {
                Word::Name(name) => bare(name).to_owned(),
                Word::Text(text) => bare(&text).to_owned(),
                other => {
                    return self
                        .words
                        .fault(format!("a name should stand before {other}"));
                }
            };
            let first = match self.words.sign("=")? {
                true => self.words.number()?,
                false => next,
            };
            let last = match self.words.sign("...")? {
                true => self.words.number()?,
                false => first,
            };
            next = last + 1;
            ranges.entry(name).or_default().push((first, last));
            if !self.words.sign(",")? && !matches!(self.words.peek(), Word::Sign("}")) {
                return self.words.fault("`,` or `}` should stand here");
            }
        }
        Ok(ranges)
    }

    /// `[NAME] [{TYPE NAME; ..}] [align(NUMBER)]`
    fn structure(&mut self) -> Result<Type, Fault> {
        let name = self.optional_name("struct")?;
        if !self.words.sign("{")? {
            return match name {
                Some(name) => self.find(&name),
                None => self.words.fault("a structure has neither name nor fields"),
            };
        }
        let fields = self.fields()?;
        let mut align = 1;
        if self.words.name("align")? {
            self.words.expect("(")?;
            align = self.align()?;
            self.words.expect(")")?;
        }
        let aligns = fields.iter().map(|(_, of)| of.align());
        let of = Type::Struct(Rc::new(Struct {
            align: aligns.fold(align, u64::max),
            depth: self.deeper(fields.iter().map(|(_, of)| of.depth()))?,
            fields,
        }));
        Ok(self.declared(name, of))
    }

    /// `[NAME] [<TAG>] [{TYPE NAME; ..}]`
    fn variant(&mut self) -> Result<Type, Fault> {
        let name = self.optional_name("variant")?;
        let tag = match self.words.sign("<")? {
            true => {
                let tag = self.path()?;
                self.words.expect(">")?;
                Some(Rc::new(tag))
            }
            false => None,
        };
        if !self.words.sign("{")? {
            let known = match &name {
                Some(name) => self.find(name)?,
                None => return self.words.fault("a variant has neither name nor options"),
            };
            return match known {
                Type::Variant(known) => Ok(Type::Variant(Rc::new(Variant {
                    tag: tag.or_else(|| known.tag.clone()),
                    ..(*known).clone()
                }))),
                other => Ok(other),
            };
        }
        let options = self.fields()?;
        let of = Type::Variant(Rc::new(Variant {
            tag,
            depth: self.deeper(options.iter().map(|(_, of)| of.depth()))?,
            options: Rc::new(options),
        }));
        Ok(self.declared(name, of))
    }

    /// The name after `struct`, `variant` or `enum`, with that word before it.
    fn optional_name(&mut self, word: &str) -> Result<Option<String>, Fault> {
        Ok(match *self.words.peek() {
            Word::Name(name) if !(word == "struct" && name == "align") => {
                self.words.take()?;
                Some(format!("{word} {name}"))
            }
            _ => None,
        })
    }

    /// Fields up to the closing brace.
    fn fields(&mut self) -> Result<Fields, Fault> {
        self.open();
        let mut fields = Fields::new();
        while !self.words.sign("}")? {
            if self.alias()? {
                continue;
            }
            let of = self.any_type()?;
            // A type may be declared without a field.
            if self.words.sign(";")? {
                continue;
            }
            loop {
                fields.push(self.declarator(of.clone())?);
                if !self.words.sign(",")? {
                    break;
                }
            }
            self.words.expect(";")?;
        }
        self.close();
        Ok(fields)
    }

    /// `NAME[LENGTH]..` of a field of this type.
    fn declarator(&mut self, of: Type) -> Result<(Rc<str>, Type), Fault> {
        self.count()?;
        let name = self.words.any_name()?;
        if matches!(self.words.peek(), Word::Sign(":")) {
            return self
                .words
                .fault("bit-fields of C are not supported: give an integer with a size");
        }
        Ok((name.into(), self.dimensions(of)?))
    }

    fn dimensions(&mut self, of: Type) -> Result<Type, Fault> {
        let mut lengths = Vec::new();
        while self.words.sign("[")? {
            lengths.push(match self.words.peek() {
                Word::Number(_) => Length::Fixed(self.words.number()? as u64),
                _ => Length::Told(self.path()?),
            });
            self.words.expect("]")?;
            if lengths.len() > DEEPEST as usize {
                return self.words.fault("its types are nested too deeply");
            }
        }
        let mut of = of;
        // The last dimension is the innermost, as in C.
        for length in lengths.into_iter().rev() {
            let depth = self.deeper([of.depth()].into_iter())?;
            of = Type::Row(Rc::new(Row {
                element: of,
                length,
                depth,
            }));
        }
        Ok(of)
    }

    fn deeper(&self, depths: impl Iterator<Item = u32>) -> Result<u32, Fault> {
        let depth = depths.max().unwrap_or(0) + 1;
        match depth > DEEPEST {
            true => self.words.fault("its types are nested too deeply"),
            false => Ok(depth),
        }
    }

    /// Names separated by dots or arrows.
    pub(crate) fn path(&mut self) -> Result<Vec<String>, Fault> {
        let mut path = vec![self.words.any_name()?.to_owned()];
        while self.words.sign(".")? || self.words.sign("->")? {
            path.push(self.words.any_name()?.to_owned());
            if path.len() > DEEPEST as usize {
                return self.words.fault("a path has too many names");
            }
        }
        Ok(path)
    }
}
