//! Paths as a tree.

use heaplab_reporter::Units;
use serde::Serialize;
use std::collections::BTreeMap;

/// Names of a path; what lies deeper stays one name.
const DEPTH_MAX: usize = 100;

/// A name with all that is reported below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Node {
    /// The name; a `\` of the path is a `/` here.
    pub name: String,
    /// What is reported here and below.
    pub amount: i64,
    /// The least of all readings.
    pub min: i64,
    /// The most of all readings.
    pub max: i64,
    /// Reports that were added up here; 0: it is only a folder.
    pub reports: u64,
    /// What is counted (Firefox's number).
    pub units: u8,
    /// What is measured.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// In a difference: 1 where only the first reading has it, 2 where only the second has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence: Option<u8>,
    /// The largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

impl Node {
    /// The child of this name.
    pub fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|child| child.name == name)
    }

    /// What is counted.
    pub fn counts(&self) -> Units {
        [Units::Count, Units::CountCumulative, Units::Percentage]
            .into_iter()
            .find(|units| *units as u8 == self.units)
            .unwrap_or(Units::Bytes)
    }

    /// The largest amount here or below, whatever its sign: by what a difference is sorted.
    pub fn weight(&self) -> u64 {
        let below = self.children.iter().map(Node::weight).max().unwrap_or(0);
        self.amount.unsigned_abs().max(below)
    }

    /// Takes in an earlier reading of the same: its amounts widen the ranges.
    pub(crate) fn widen(&mut self, earlier: &Node) {
        self.min = self.min.min(earlier.min);
        self.max = self.max.max(earlier.max);
        let mut old: BTreeMap<&str, &Node> =
            earlier.children.iter().map(|child| (child.name.as_str(), child)).collect();
        for child in &mut self.children {
            match old.remove(child.name.as_str()) {
                Some(earlier) => child.widen(earlier),
                None => child.min = child.min.min(0),
            }
        }
        // What is gone now was there once.
        self.children.extend(old.into_values().map(|gone| gone.emptied()));
    }

    fn emptied(&self) -> Node {
        let children = self.children.iter().map(Node::emptied).collect();
        Node { amount: 0, min: self.min.min(0), children, ..self.clone() }
    }
}

/// The sum if 64 bits hold it, else the nearest number that they hold.
pub(crate) fn nearest(sum: i128) -> i64 {
    sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// A tree while it grows. Sums have 128 bits: reporters may lie, and a sum of 64 bits would depend
/// on their order.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    own: i128,
    reports: u64,
    units: Option<Units>,
    description: String,
    presence: Option<u8>,
    children: BTreeMap<String, Growing>,
}

impl Growing {
    /// Adds a report; false: the node counts something else already.
    pub(crate) fn add(
        &mut self,
        path: &str,
        units: Units,
        amount: i128,
        description: &str,
        presence: Option<u8>,
    ) -> bool {
        let mut node = self;
        for name in path.splitn(DEPTH_MAX, '/') {
            node = node.children.entry(name.to_owned()).or_default();
            if *node.units.get_or_insert(units) != units {
                return false;
            }
        }
        node.own += amount;
        node.reports += 1;
        node.presence = presence;
        if node.description.is_empty() {
            description.clone_into(&mut node.description);
        }
        true
    }

    /// What is directly below the root, and the paths whose sums 64 bits do not hold: of a path
    /// and those around it the path alone.
    pub(crate) fn grown(self) -> (Vec<Node>, Vec<String>) {
        let mut beyond = Vec::new();
        let (nodes, _) = self.below(&mut String::new(), &mut beyond);
        (nodes, beyond)
    }

    /// The children, and their sum.
    fn below(self, path: &mut String, beyond: &mut Vec<String>) -> (Vec<Node>, i128) {
        let (mut sum, before) = (0, path.len());
        let mut children = Vec::with_capacity(self.children.len());
        for (name, child) in self.children {
            path.push_str(if before == 0 { "" } else { "/" });
            path.push_str(&name);
            let (node, amount) = child.node(name, path, beyond);
            path.truncate(before);
            sum += amount;
            children.push((node.weight(), node));
        }
        children.sort_by(|(a, left), (b, right)| b.cmp(a).then_with(|| left.name.cmp(&right.name)));
        (children.into_iter().map(|(_, node)| node).collect(), sum)
    }

    fn node(mut self, name: String, path: &mut String, beyond: &mut Vec<String>) -> (Node, i128) {
        let (own, reports, units) = (self.own, self.reports, self.units.unwrap_or(Units::Bytes));
        let (description, presence) = (std::mem::take(&mut self.description), self.presence);
        let before = beyond.len();
        let (children, below) = self.below(path, beyond);
        let sum = own + below;
        let amount = nearest(sum);
        if i128::from(amount) != sum && beyond.len() == before {
            beyond.push(path.clone());
        }
        let node = Node {
            name: name.replace('\\', "/"),
            amount,
            min: amount,
            max: amount,
            reports,
            units: units as u8,
            description,
            presence,
            children,
        };
        (node, sum)
    }
}
