//! Heaps whose objects lend their texts give the same snapshot as without, except for string
//! numbers.

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

/// Objects from 1 on under a root, each named by its own text or by a given one; references use
/// both kinds of name.
struct Texts {
    own: Rc<RefCell<Vec<Option<String>>>>,
    given: Vec<String>,
    lends: bool,
    /// Whether nodes stand in the order of handles.
    by_address: bool,
    /// After so many more reads the first text is another.
    changes: Rc<Cell<Option<usize>>>,
}

struct Reader {
    own: Rc<RefCell<Vec<Option<String>>>>,
    changes: Rc<Cell<Option<usize>>>,
}

impl OwnTexts for Reader {
    fn append(&self, object: u64, out: &mut Vec<u8>) -> bool {
        match self.changes.get() {
            Some(0) => self.own.borrow_mut()[0] = Some("another".into()),
            left => self.changes.set(left.map(|left| left - 1)),
        }
        let own = self.own.borrow();
        let Some(Some(text)) = (object as usize).checked_sub(1).and_then(|index| own.get(index))
        else {
            return false;
        };
        out.extend_from_slice(text.as_bytes());
        true
    }
}

impl Texts {
    fn name(&self, object: u64) -> String {
        let index = object as usize - 1;
        self.own.borrow()[index].clone().unwrap_or_else(|| self.given[index].clone())
    }
}

impl Embedder for Texts {
    fn root(&mut self) -> u64 {
        0
    }

    fn numbered_by_address(&self) -> bool {
        self.by_address
    }

    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64)) {
        if object == 0 {
            (1..=self.given.len() as u64).for_each(visit);
        }
    }

    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description {
        let name = if object == 0 { String::from("(root)") } else { self.name(object) };
        let name = names.intern(name.as_bytes());
        Description {
            node_type: node_type::STRING,
            name,
            id: object * 2 + 1,
            self_size: 8,
            trace_node_id: 0,
            detachedness: 0,
        }
    }

    fn references(&mut self, object: u64, edges: &mut impl EdgeSink) {
        let count = if object == 0 { self.given.len() as u64 } else { 0 };
        for target in 1..=count {
            let name = if target % 2 == 0 {
                self.name(target)
            } else {
                self.given[target as usize - 1].clone()
            };
            edges.named(edge_type::PROPERTY, name.as_bytes(), target);
        }
    }

    fn own_texts(&self) -> Option<Box<dyn OwnTexts>> {
        let reader = Reader { own: self.own.clone(), changes: self.changes.clone() };
        self.lends.then(|| Box::new(reader) as Box<dyn OwnTexts>)
    }
}

fn heap(own: Vec<Option<String>>, given: Vec<String>, lends: bool) -> Texts {
    Texts {
        own: Rc::new(RefCell::new(own)),
        given,
        lends,
        by_address: false,
        changes: Rc::new(Cell::new(None)),
    }
}

/// Strings of a file, and its rows with texts in place of their numbers.
fn resolved(file: &Value) -> (Vec<String>, Vec<String>) {
    let strings: Vec<String> = file["strings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect();
    let nodes = rows(file, "nodes", 6)
        .into_iter()
        .map(|row| format!("{} {:?}", strings[row[1] as usize], &row[2..]));
    let edges = rows(file, "edges", 3)
        .into_iter()
        .map(|row| format!("{} {}", strings[row[1] as usize], row[2]));
    (nodes.chain(edges).collect(), strings)
}

proptest! {
    #[test]
    fn lent_texts_are_written_as_copied_ones_are(
        texts in prop::collection::vec((prop::option::of("[a-c]{0,2}|[a-zé😀\"]{0,9}"), "[a-c]{0,2}"), 1..300),
        hash in 0..3usize,
        by_address: bool,
    ) {
        let count = texts.len();
        let (own, given): (Vec<_>, Vec<_>) = texts.into_iter().unzip();
        let options = GeneratorOptions { hash: [Hash::V8Original, Hash::V8Shifted, Hash::Mixed][hash], ..GeneratorOptions::default() };
        let (lent, _) = made(&mut Texts { by_address, ..heap(own.clone(), given.clone(), true) }, options);
        let (copied, _) = made(&mut heap(own, given, false), options);
        let ((mut lent_rows, mut lent), (mut copied_rows, mut copied)) = (resolved(&lent), resolved(&copied));
        if by_address {
            // The edges' rows name targets by their places, which are others.
            lent_rows.truncate(count + 1);
            copied_rows.truncate(count + 1);
            lent_rows.sort();
            copied_rows.sort();
        }
        prop_assert_eq!(lent_rows, copied_rows);
        prop_assert_eq!(lent.iter().collect::<HashSet<_>>().len(), lent.len(), "one copy of each");
        lent.sort();
        copied.sort();
        prop_assert_eq!(lent, copied);
    }
}

#[test]
fn a_lent_text_costs_five_bytes() {
    let count = 100_000;
    let own = (0..count).map(|number| Some(format!("text {number}"))).collect();
    let mut heap = heap(own, vec![String::from("given"); count], true);
    let (file, profile) = made(&mut heap, GeneratorOptions::default());
    assert_eq!(file["strings"].as_array().unwrap().len(), count + 2);
    assert!((profile.strings_bytes as f64) < count as f64 * 5.1, "{} bytes", profile.strings_bytes);
}

/// If a text changes at any time, the result is an error or a file with the earlier text.
#[test]
fn a_text_that_changes_ends_the_file() {
    let reads = |changes: usize| {
        let mut heap =
            heap(vec![Some("one".into()), Some("two".into())], vec!["a".into(), "b".into()], true);
        heap.changes = Rc::new(Cell::new(Some(changes)));
        let made = generate(&mut heap, Vec::new(), GeneratorOptions::default())
            .map(|(bytes, _)| String::from_utf8(bytes).unwrap());
        (made, heap.changes.get() != Some(0))
    };
    let mut refused = 0;
    for changes in 0.. {
        let (made, unchanged) = reads(changes);
        match made {
            Ok(file) if unchanged => {
                assert!(file.contains("\"one\"") && !file.contains("another"));
                break;
            }
            // Before its hash was first asked for.
            Ok(file) => assert!(file.contains("another") != file.contains("\"one\""), "{file}"),
            Err(GenerateError::Write(WriteError::Lent(_))) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 1);
}

#[test]
fn names_asked_for_in_the_first_phase_are_copied() {
    let mut heap = heap(vec![Some("one".into())], vec!["a".into()], true);
    let (file, profile) = made(
        &mut heap,
        GeneratorOptions { names_in_generation: true, ..GeneratorOptions::default() },
    );
    assert_eq!(
        (resolved(&file).1, profile.generation_names.inserted),
        (vec!["(root)".into(), "a".into(), "one".into()], 3)
    );
}
