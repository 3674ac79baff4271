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

/// A tree while it grows.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    own: i64,
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
        amount: i64,
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
        node.own = node.own.saturating_add(amount);
        node.reports += 1;
        node.presence = presence;
        if node.description.is_empty() {
            description.clone_into(&mut node.description);
        }
        true
    }

    /// What is directly below the root.
    pub(crate) fn grown(self) -> Vec<Node> {
        let mut children: Vec<(u64, Node)> = self
            .children
            .into_iter()
            .map(|(name, child)| {
                let node = child.node(name);
                (node.weight(), node)
            })
            .collect();
        children.sort_by(|(a, left), (b, right)| b.cmp(a).then_with(|| left.name.cmp(&right.name)));
        children.into_iter().map(|(_, node)| node).collect()
    }

    fn node(mut self, name: String) -> Node {
        let (own, reports, units) = (self.own, self.reports, self.units.unwrap_or(Units::Bytes));
        let (description, presence) = (std::mem::take(&mut self.description), self.presence);
        let children = self.grown();
        let amount = children.iter().fold(own, |sum, child| sum.saturating_add(child.amount));
        Node {
            name: name.replace('\\', "/"),
            amount,
            min: amount,
            max: amount,
            reports,
            units: units as u8,
            description,
            presence,
            children,
        }
    }
}
