//! Thrift's compact protocol, the part that Parquet's page headers and footers need.
//!
//! Reading takes a slice and cannot reach beyond it; it allocates nothing for a claimed length.
//! Unknown fields are skipped, nested at most [`DEPTH_LIMIT`] deep.

use super::Fault;

/// Nesting beyond which a skipped value is refused.
pub const DEPTH_LIMIT: u32 = 16;

/// Types on the wire.
pub mod wire {
    /// A boolean field that is true; its value is in the header.
    pub const TRUE: u8 = 1;
    /// A boolean field that is false.
    pub const FALSE: u8 = 2;
    /// One byte.
    pub const I8: u8 = 3;
    /// 32 bits, zigzag varint.
    pub const I32: u8 = 5;
    /// 64 bits, zigzag varint.
    pub const I64: u8 = 6;
    /// Length and bytes.
    pub const BINARY: u8 = 8;
    /// Header with size and type, then elements.
    pub const LIST: u8 = 9;
    /// Fields up to a zero byte.
    pub const STRUCT: u8 = 12;
}

/// Appends one struct's fields to a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    last: i16,
}

impl<'a> Writer<'a> {
    /// Begins a struct at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out, last: 0 }
    }

    fn header(&mut self, field: i16, kind: u8) {
        let step = field - self.last;
        debug_assert!(
            (1..=15).contains(&step),
            "fields are written in ascending order, gaps under 16"
        );
        self.out.push((step as u8) << 4 | kind);
        self.last = field;
    }

    /// A 32-bit field.
    pub fn i32(&mut self, field: i16, value: i32) {
        self.header(field, wire::I32);
        varint(self.out, zigzag(i64::from(value)));
    }

    /// A 64-bit field.
    pub fn i64(&mut self, field: i16, value: i64) {
        self.header(field, wire::I64);
        varint(self.out, zigzag(value));
    }

    /// A one-byte field.
    pub fn i8(&mut self, field: i16, value: i8) {
        self.header(field, wire::I8);
        self.out.push(value as u8);
    }

    /// A boolean field.
    pub fn bool(&mut self, field: i16, value: bool) {
        self.header(field, if value { wire::TRUE } else { wire::FALSE });
    }

    /// A field of bytes.
    pub fn bytes(&mut self, field: i16, value: &[u8]) {
        self.header(field, wire::BINARY);
        varint(self.out, value.len() as u64);
        self.out.extend_from_slice(value);
    }

    /// A struct field; `fill` writes its fields.
    pub fn structure(&mut self, field: i16, fill: impl FnOnce(&mut Writer)) {
        self.header(field, wire::STRUCT);
        element(self.out, fill);
    }

    /// A list of structs; `fill` writes each.
    pub fn structures<T>(
        &mut self,
        field: i16,
        items: &[T],
        mut fill: impl FnMut(&mut Writer, &T),
    ) {
        self.list(field, wire::STRUCT, items.len());
        for item in items {
            element(self.out, |writer| fill(writer, item));
        }
    }

    /// A list of 32-bit values.
    pub fn i32s(&mut self, field: i16, items: &[i32]) {
        self.list(field, wire::I32, items.len());
        for item in items {
            varint(self.out, zigzag(i64::from(*item)));
        }
    }

    /// A list of byte strings.
    pub fn texts(&mut self, field: i16, items: &[&str]) {
        self.list(field, wire::BINARY, items.len());
        for item in items {
            varint(self.out, item.len() as u64);
            self.out.extend_from_slice(item.as_bytes());
        }
    }

    fn list(&mut self, field: i16, kind: u8, length: usize) {
        self.header(field, wire::LIST);
        if length < 15 {
            self.out.push((length as u8) << 4 | kind);
        } else {
            self.out.push(0xf0 | kind);
            varint(self.out, length as u64);
        }
    }

    /// Ends the struct.
    pub fn end(self) {
        self.out.push(0);
    }
}

fn element(out: &mut Vec<u8>, fill: impl FnOnce(&mut Writer)) {
    let mut inner = Writer::new(out);
    fill(&mut inner);
    inner.end();
}

/// Appends an unsigned LEB128 number.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Signed to unsigned, small magnitudes first.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads from the front of a slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the front.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The unread rest.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        if length > self.rest.len() {
            return Err(Fault::new(
                format!("{length} more bytes"),
                format!("{} bytes to the end", self.rest.len()),
            ));
        }
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?[0])
    }

    /// An unsigned LEB128 number of at most 64 bits.
    pub fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Fault::new("a number of at most 10 bytes", "a longer one"))
    }

    /// A zigzag number.
    pub fn signed(&mut self) -> Result<i64, Fault> {
        Ok(unzigzag(self.varint()?))
    }

    /// A length with its bytes.
    pub fn binary(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.varint()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// A list's element type and length. Every element takes at least a byte: a length beyond the
    /// rest is refused.
    pub fn list(&mut self) -> Result<(u8, usize), Fault> {
        let head = self.byte()?;
        let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        if length > self.rest.len() as u64 {
            return Err(Fault::new(
                format!("a list within the {} bytes that follow", self.rest.len()),
                format!("one of {length} elements"),
            ));
        }
        Ok((head & 15, length as usize))
    }

    /// Calls `field` with the number and type of each field of a struct; it must read or
    /// [`Reader::skip`] the value.
    pub fn structure(
        &mut self,
        mut field: impl FnMut(&mut Reader<'a>, i16, u8) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut last = 0i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            last = match head >> 4 {
                0 => self.signed()? as i16,
                step => last.wrapping_add(i16::from(step)),
            };
            field(self, last, head & 15)?;
        }
    }

    /// Skips a value of this type.
    pub fn skip(&mut self, kind: u8) -> Result<(), Fault> {
        self.skip_within(kind, DEPTH_LIMIT)
    }

    fn skip_within(&mut self, kind: u8, depth: u32) -> Result<(), Fault> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Fault::new(format!("nesting of at most {DEPTH_LIMIT}"), "deeper nesting"));
        };
        match kind {
            wire::TRUE | wire::FALSE => Ok(()),
            wire::I8 => self.take(1).map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.take(8).map(drop),
            wire::BINARY => self.binary().map(drop),
            wire::LIST | 10 => {
                let (kind, length) = self.list()?;
                for _ in 0..length {
                    // In a list a boolean takes a byte; in a field it is in the header.
                    if kind <= wire::FALSE {
                        self.take(1).map(drop)?
                    } else {
                        self.skip_within(kind, depth)?
                    }
                }
                Ok(())
            }
            wire::STRUCT => self.structure(|reader, _, kind| reader.skip_within(kind, depth)),
            other => Err(Fault::new(
                "a value type of thrift's compact protocol",
                format!("type {other}"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: i64) {
            let mut bytes = Vec::new();
            varint(&mut bytes, zigzag(value));
            prop_assert_eq!(Reader::new(&bytes).signed().unwrap(), value);
        }

        #[test]
        fn any_bytes_are_skipped_or_refused(bytes: Vec<u8>, kind in 0u8..16) {
            let _ = Reader::new(&bytes).skip(kind);
        }
    }

    #[test]
    fn a_list_longer_than_its_bytes_is_refused() {
        let mut bytes = vec![0xf5];
        varint(&mut bytes, 1 << 40);
        assert!(Reader::new(&bytes).list().is_err());
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(Reader::new(&[0x1c; 4096]).skip(wire::STRUCT).is_err());
    }
}
