//! The kinds of loaders, from the table beside a trace.

use heaplab_trace::TraceError;
use heaplab_trace::import::lines::shown;
use heaplab_trace::import::{self, Imported};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The loss of a trace without its table.
pub const UNKNOWN: &str =
    "the trace does not say the kinds of loaders: all but the first are taken as standard";

/// Names the kinds of arenas by the table beside a trace: `X.arenas.csv[.gz]` beside
/// `X.trace[.gz]`. Without a table nothing is named.
///
/// # Errors
/// The table cannot be read, or has a wrong line.
pub fn name_kinds_beside(imported: &mut Imported, trace: &Path) -> Result<(), TraceError> {
    let name = trace.to_string_lossy();
    let Some(stem) = name.strip_suffix(".trace.gz").or_else(|| name.strip_suffix(".trace")) else {
        return Ok(());
    };
    for table in [format!("{stem}.arenas.csv.gz"), format!("{stem}.arenas.csv")] {
        let table = Path::new(&table);
        let Ok(file) = File::open(table) else { continue };
        let text = import::text(BufReader::new(file)).map_err(TraceError::io(table, "read"))?;
        name_kinds(imported, &text, table)?;
        return Ok(());
    }
    Ok(())
}

/// Sets the kinds of loaders from the table beside a trace, `arena,clms,space,kind,...`, a line an
/// arena. Returns the number of named arenas. `name` is the table's, for messages. The table of a
/// whole trace may lie beside a part of it: arenas outside of the part are counted in `losses`.
pub fn name_kinds(imported: &mut Imported, table: &str, name: &Path) -> Result<usize, TraceError> {
    let (mut named, mut unreached) = (0, 0);
    for (index, line) in table.lines().enumerate().skip(1) {
        let wrong = |expected: String| TraceError::Malformed {
            path: name.into(),
            place: format!("line {}", index + 1),
            expected,
            found: format!("\"{}\"", shown(line.as_bytes())),
        };
        let fields: Vec<&str> = line.split(',').collect();
        let (Some(arena), Some(kind)) = (fields[0].parse::<usize>().ok(), fields.get(3)) else {
            return Err(wrong("arena,loader,space,kind,...".into()));
        };
        let Some(row) = arena.checked_add(1).and_then(|row| imported.tables.arenas.get_mut(row))
        else {
            unreached += 1;
            continue;
        };
        if !["boot", "standard", "hidden", "reflection", "micro"].contains(kind) {
            return Err(wrong("boot, standard, hidden, reflection or micro as the kind".into()));
        }
        row.growth_policy = (*kind).into();
        named += 1;
    }
    if unreached > 0 {
        let born = imported.tables.arenas.len().saturating_sub(1);
        imported.meta.losses.push(format!(
            "{}: {unreached} of its arenas are not in the trace, which has {born}: the trace was cut, or the table is another's",
            name.display()
        ));
    }
    if named + 1 == imported.tables.arenas.len() {
        imported.meta.losses.retain(|loss| loss != UNKNOWN);
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SMALL, read};
    use super::*;

    #[test]
    fn a_table_that_is_not_the_trace_s_is_refused() {
        let (_, mut imported) = read(SMALL, false).unwrap();
        for (line, expected) in [("x", "arena,loader"), ("0,0,n,odd", "boot, standard")] {
            let said = name_kinds(&mut imported, &format!("arena\n{line}"), Path::new("t.csv"))
                .unwrap_err()
                .to_string();
            assert!(said.contains("t.csv: line 2") && said.contains(expected), "{said}");
        }
        // Nothing else tells that a trace was cut between two lines.
        assert_eq!(
            name_kinds(
                &mut imported,
                "arena\n0,0,n,boot\n3,0,n,boot\n4,1,n,hidden",
                Path::new("t.csv")
            )
            .unwrap(),
            1
        );
        let said = imported.meta.losses.last().unwrap();
        assert!(
            said.starts_with("t.csv: 2 of its arenas are not in the trace, which has 3"),
            "{said}"
        );
    }
}
