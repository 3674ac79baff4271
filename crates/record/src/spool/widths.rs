//! The bytes of a number, as two bits: a choice of four widths for each field of a record.
//!
//! Four widths and not nine: the codes of a whole record then fit its first two bytes, and one load
//! gives the start of each field. One more width would cost every record a byte, and a byte of the
//! spool costs more time than its encoding.

/// Bytes read or written at a time: the longest record, and a load of eight bytes at its end.
pub const ROOM: usize = 72;

/// The four widths of one field, in bytes, rising; the last fits any value of the field.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    widths: [u8; 4],
    masks: [u64; 4],
    /// The code of the least width, by the number of bits.
    codes: [u8; 65],
}

impl Widths {
    /// A choice of these widths.
    pub const fn new(widths: [u8; 4]) -> Widths {
        let mut all = Widths { widths, masks: [0; 4], codes: [3; 65] };
        let mut code = 4;
        while code > 0 {
            code -= 1;
            let bits = widths[code] as u32 * 8;
            all.masks[code] = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
            let mut fits = 0;
            while fits <= bits {
                all.codes[fits as usize] = code as u8;
                fits += 1;
            }
        }
        all
    }
}

/// Writes fields one after the other.
#[derive(Debug)]
pub struct Put<'a> {
    room: &'a mut [u8; ROOM],
    /// Bytes so far.
    pub at: usize,
}

impl<'a> Put<'a> {
    /// Writes into `room`, from `at` on.
    #[inline(always)]
    pub fn new(room: &'a mut [u8; ROOM], at: usize) -> Put<'a> {
        Put { room, at }
    }

    /// Adds a field; returns its code.
    #[inline(always)]
    pub fn field(&mut self, value: u64, widths: &Widths) -> u32 {
        let code = widths.codes[64 - value.leading_zeros() as usize];
        self.whole(value, widths.widths[usize::from(code & 3)].into());
        code.into()
    }

    /// Adds the low `bytes` bytes of a number.
    #[inline(always)]
    pub fn whole(&mut self, value: u64, bytes: usize) {
        let at = self.at & 63;
        self.room[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self.at += bytes;
    }

    /// Writes the record's head into the room left for it, least significant byte first.
    #[inline(always)]
    pub fn head<const N: usize>(&mut self, head: u32) {
        self.room[..N].copy_from_slice(&head.to_le_bytes()[..N]);
    }
}

/// Reads fields one after the other.
#[derive(Debug)]
pub struct Take<'a> {
    room: &'a [u8; ROOM],
    /// Bytes so far.
    pub at: usize,
}

impl<'a> Take<'a> {
    /// Reads from `room`, from `at` on.
    #[inline(always)]
    pub fn new(room: &'a [u8; ROOM], at: usize) -> Take<'a> {
        Take { room, at }
    }

    /// The next field; its width's code is the low two bits of `code`.
    #[inline(always)]
    pub fn field(&mut self, code: u32, widths: &Widths) -> u64 {
        let code = code as usize & 3;
        let value = self.eight() & widths.masks[code];
        self.at += usize::from(widths.widths[code]);
        value
    }

    /// The next number of `bytes` bytes, 1 to 8.
    #[inline(always)]
    pub fn whole(&mut self, bytes: usize) -> u64 {
        let value = self.eight() & u64::MAX >> (64 - 8 * bytes);
        self.at += bytes;
        value
    }

    #[inline(always)]
    fn eight(&self) -> u64 {
        // No record is longer than 63 bytes: the mask removes only zero bits, and spares the bounds
        // check.
        let at = self.at & 63;
        let mut eight = [0; 8];
        eight.copy_from_slice(&self.room[at..at + 8]);
        u64::from_le_bytes(eight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_takes_the_least_width_that_holds_it(value in prop_oneof![0_u64..300, any::<u64>(), (0_u32..64).prop_map(|bit| 1 << bit)]) {
            for widths in [[0, 1, 2, 8], [1, 2, 3, 8], [2, 3, 6, 8]] {
                let table = Widths::new(widths);
                let mut room = [0xAA; ROOM];
                let mut put = Put::new(&mut room, 3);
                let code = put.field(value, &table);
                let bytes = put.at - 3;
                let least = widths.into_iter().find(|width| *width == 8 || value >> (8 * u32::from(*width)) == 0);
                prop_assert_eq!(least, Some(bytes as u8));
                let mut take = Take::new(&room, 3);
                prop_assert_eq!((take.field(code, &table), take.at), (value, 3 + bytes));
            }
        }
    }
}
