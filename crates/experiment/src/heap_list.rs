//! Every heap there is, with its version and parameters, as a person reads it.

use heaplab_heap::Row;
use heaplab_text::lines::paragraph;

/// The list, after `syntax`: how parameters follow a name.
pub fn text(syntax: &str, table: &[Row], columns: usize) -> String {
    const PARAMETER: usize = 26;
    let mut out = paragraph(syntax, "", 0, columns);
    out.push('\n');
    for (nth, heap) in table.iter().enumerate() {
        let argument = heap.argument.map(|argument| format!(":{argument}")).unwrap_or_default();
        let version =
            heap.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
        out += &format!("{}{argument}{version}\n", heap.name);
        out += &paragraph(heap.summary, "    ", 4, columns);
        if let Some(why) = heap.space_depends_on_time {
            out += &paragraph(
                &format!("its space is measured in several cells: {why}"),
                "    ",
                4,
                columns,
            );
        }
        if let Some(earlier) = table[..nth].iter().find(|earlier| takes_the_same(earlier, heap)) {
            out += &format!("    parameters: those of {}\n\n", earlier.name);
            continue;
        }
        for parameter in &heap.parameters {
            out += &paragraph(
                parameter.help,
                &format!("    {:<22}", parameter.name),
                PARAMETER,
                columns,
            );
            out += &paragraph(
                &format!("{}; default {}", parameter.takes, parameter.default),
                "",
                PARAMETER,
                columns,
            );
        }
        if let Some(example) = heap.example {
            out += &paragraph(&format!("for example {example}"), "    ", 4, columns);
        }
        out.push('\n');
    }
    out
}

/// Whether two heaps of one family have the same parameters: they are listed once.
fn takes_the_same(earlier: &Row, heap: &Row) -> bool {
    let family = |row: &Row| row.name.split(':').next().unwrap_or_default().to_owned();
    let names =
        |row: &Row| row.parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>();
    !heap.parameters.is_empty() && family(earlier) == family(heap) && names(earlier) == names(heap)
}
