//! The columns of `events.parquet`: their names and types.
//!
//! A column is null for operations without a value in it, so `sum(size)` needs no condition.

use crate::Op;
use crate::parquet::schema::{Column, Encoding::*, Kind::*};

/// The columns in the order of the file.
pub const COLUMNS: [Column; 22] = [
    Column::required("op", Text, Dictionary),
    Column::optional("object", I64, Delta),
    Column::optional("size", U64, Dictionary),
    Column::optional("usable", U64, Dictionary),
    Column::optional("alignment", U64, Dictionary),
    Column::required("zeroed", Bool, Bits),
    Column::required("moved", Bool, Bits),
    Column::required("failed", Bool, Bits),
    Column::required("inherited", Bool, Bits),
    Column::required("family", Text, Dictionary),
    Column::required("process", U32, Dictionary),
    Column::required("thread", U32, Dictionary),
    Column::optional("stack", U32, Dictionary),
    Column::required("arena", U32, Dictionary),
    Column::required("time_ns", I64, Delta),
    Column::optional("address", U64, Dictionary),
    Column::optional("origin", Text, Dictionary),
    Column::required("direct_to_old", Bool, Bits),
    Column::optional("collection", U32, Delta),
    Column::optional("field", U32, Dictionary),
    Column::optional("target", I64, Delta),
    Column::optional("mark", U32, Delta),
];

/// Each operation's name in the file, in the order of its number.
pub const OPS: [&str; Op::ALL.len()] = [
    "alloc",
    "free",
    "realloc",
    "usable_size_read",
    "arena_birth",
    "arena_death",
    "promote",
    "collect_begin",
    "collect_end",
    "reference",
    "mark",
    "collect",
    "collect_young",
    "trim",
    "report",
];

/// Each family's name, in the order of its number.
pub const FAMILIES: [&str; 5] = ["malloc", "aligned", "new", "managed", "arena"];

/// Each origin's name, in the order of its number.
pub const ORIGINS: [&str; 4] = ["normal", "marshalled", "custom", "hidden_class"];
