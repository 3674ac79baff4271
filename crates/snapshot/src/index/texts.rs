//! The lists of an index that are no columns: names, classes, interfaces. Numbers are u64, a text
//! is its length and its bytes.

use crate::analysis::{Answers, Class, Interface};
use zerocopy::FromBytes;

/// What is read.
pub struct Texts {
    pub added_names: Vec<Vec<u8>>,
    pub classes: Vec<Class>,
    pub interfaces: Vec<Interface>,
}

impl Texts {
    /// As bytes.
    pub fn write(answers: &Answers) -> Vec<u8> {
        let mut out = Vec::new();
        texts(&mut out, &answers.added_names);
        number(&mut out, answers.classes.len() as u64);
        for class in &answers.classes {
            let Class { name, place, count, self_size, retained_size, distance, shadowed } = class;
            text(&mut out, name);
            let (script, line, column) = place.unwrap_or_default();
            [u64::from(place.is_some()), script.into(), line.into(), column.into()]
                .into_iter()
                .chain([*count, *self_size, *retained_size])
                .chain([i64::from(*distance) as u64, u64::from(*shadowed)])
                .for_each(|value| number(&mut out, value));
        }
        number(&mut out, answers.interfaces.len() as u64);
        for Interface { name, properties, count } in &answers.interfaces {
            text(&mut out, name);
            texts(&mut out, properties);
            number(&mut out, u64::from(*count));
        }
        out
    }

    /// From bytes, all of them.
    pub fn read(bytes: &[u8]) -> Option<Texts> {
        let mut read = Reader { bytes };
        let read_all = Texts {
            added_names: read.texts()?,
            classes: read.list(Reader::class)?,
            interfaces: read.list(Reader::interface)?,
        };
        read.bytes.is_empty().then_some(read_all)
    }
}

fn number(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_ne_bytes());
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    number(out, text.len() as u64);
    out.extend(text);
}

fn texts(out: &mut Vec<u8>, texts: &[Vec<u8>]) {
    number(out, texts.len() as u64);
    texts.iter().for_each(|one| text(out, one));
}

struct Reader<'i> {
    bytes: &'i [u8],
}

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = u64::read_from_prefix(self.bytes).ok()?;
        self.bytes = rest;
        Some(number)
    }

    fn short(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(text.to_vec())
    }

    /// A list ends where the bytes do, however long it says it is.
    fn list<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.number()?).map(|_| one(self)).collect()
    }

    fn texts(&mut self) -> Option<Vec<Vec<u8>>> {
        self.list(Self::text)
    }

    fn class(&mut self) -> Option<Class> {
        let name = self.text()?;
        let has_place = self.number()? != 0;
        let place = (self.short()?, self.short()?, self.short()?);
        Some(Class {
            name,
            place: has_place.then_some(place),
            count: self.number()?,
            self_size: self.number()?,
            retained_size: self.number()?,
            distance: i32::try_from(self.number()? as i64).ok()?,
            shadowed: self.number()? != 0,
        })
    }

    fn interface(&mut self) -> Option<Interface> {
        Some(Interface { name: self.text()?, properties: self.texts()?, count: self.short()? })
    }
}
