//! A condition on objects, prepared for a heap of millions of them.
//!
//! What depends on an object's class, its type or its name alone is decided once a class, a type or
//! a name. Sums of numbers are computed as doubles while doubles are exact. The rest is evaluated
//! for each object. Objects are asked about in blocks: sums of a block are sums of vectors.

use super::object::{Cell, Objects};
use super::plan::Field;
use crate::Node;
use crate::analysis::NameTests;
use crate::meta::NodeType;
use crate::strings::to_text;
use heaplab_expression::{Expression, Pattern, Value};
use std::array::from_fn;
use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;

/// A condition on the objects of one heap.
pub struct Condition<'e, 'q, 's, 'a> {
    objects: &'e Objects<'q, 's, 'a>,
    test: Test<'e, 'q, 's, 'a>,
}

/// A part of a condition, by what decides it.
enum Test<'e, 'q, 's, 'a> {
    Always(bool),
    /// Whether the condition is false where one does not hold.
    Every(Vec<Test<'e, 'q, 's, 'a>>, bool),
    Any(Vec<Test<'e, 'q, 's, 'a>>),
    Not(Box<Test<'e, 'q, 's, 'a>>),
    /// By the class's index.
    OfClass(Vec<bool>),
    /// By the type's number.
    OfType(Vec<bool>),
    OfName(NameTest<'e>, Box<RefCell<NameTests<'q, 's, 'a>>>),
    /// Whether the field may be less than, equal to, more than the number.
    OfNumber(Field, [bool; 3], i64),
    /// The same of two sums, and the expression of both.
    OfSums([bool; 3], Sum, Sum, &'e Expression),
    Evaluated(&'e Expression),
}

/// A comparison of a name with constants.
enum NameTest<'e> {
    Is(&'e [u8]),
    IsNot(&'e [u8]),
    Fits(Pattern),
    Evaluated(&'e Expression),
}

/// Numbers and fields with signs between them.
enum Sum {
    Number(f64),
    Field(Field),
    Steps(Box<Sum>, Vec<(u8, Sum)>),
}

/// Whether a part holds for each of some objects, and whether it has a value: a part without one
/// makes the condition false, whatever stands beside it.
struct Truth<const N: usize> {
    holds: [bool; N],
    has_value: [bool; N],
}

/// Objects of a block.
const AT_ONCE: usize = 64;

/// Doubles hold whole numbers below this exactly: there, sums of doubles are those of expressions.
/// This one may be a larger number, rounded.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl<'e, 'q, 's, 'a> Condition<'e, 'q, 's, 'a> {
    /// Of an expression whose names are fields of objects.
    pub fn new(objects: &'e Objects<'q, 's, 'a>, expression: &'e Expression) -> Self {
        Condition { objects, test: Test::of(objects, expression, true) }
    }

    /// Whether it holds for an object. A quotient by zero is neither above nor below any number.
    pub fn holds(&self, node: Node) -> bool {
        let [holds] = self.of_block(&[node]);
        holds
    }

    /// The nodes for which it holds.
    pub fn holding(&self, mut nodes: impl Iterator<Item = Node>) -> Vec<Node> {
        let mut found = Vec::new();
        let mut block = [0; AT_ONCE];
        loop {
            let mut filled = 0;
            block.iter_mut().zip(nodes.by_ref()).for_each(|(place, node)| {
                *place = node;
                filled += 1;
            });
            if filled < AT_ONCE {
                found.extend(block[..filled].iter().filter(|node| self.holds(**node)));
                return found;
            }
            let holds = self.of_block(&block);
            found.extend(block.iter().zip(holds).filter(|(_, holds)| *holds).map(|(node, _)| node));
        }
    }

    fn of_block<const N: usize>(&self, nodes: &[Node; N]) -> [bool; N] {
        let mut truth = self.test.truth(self.objects, nodes, [true; N]);
        and(&mut truth.holds, truth.has_value);
        truth.holds
    }
}

impl<'e, 'q, 's, 'a> Test<'e, 'q, 's, 'a> {
    /// `must_hold`: where the part does not hold, the condition does not.
    fn of(objects: &Objects<'q, 's, 'a>, expression: &'e Expression, must_hold: bool) -> Self {
        let all = |parts: &'e [Expression], must_hold| {
            parts.iter().map(|part| Test::of(objects, part, must_hold)).collect()
        };
        match expression {
            Expression::Every(parts) => Test::Every(all(parts, must_hold), must_hold),
            Expression::Any(parts) => Test::Any(all(parts, false)),
            Expression::Not(part) => Test::Not(Test::of(objects, part, false).into()),
            part => Test::of_comparison(objects, part)
                .or_else(|| Test::of_sums(part))
                .unwrap_or(Test::Evaluated(part)),
        }
    }

    fn of_sums(part: &'e Expression) -> Option<Self> {
        let Expression::Compared(sign, left, right) = part else { return None };
        Some(Test::OfSums(orders(sign)?, Sum::of(left)?, Sum::of(right)?, part))
    }

    /// `None`: the comparison needs a sum or an evaluation for each object.
    fn of_comparison(objects: &Objects<'q, 's, 'a>, part: &'e Expression) -> Option<Self> {
        let Some(field) = only_field(part)? else {
            let no_name = &mut |_: &str, _: Option<&str>| Value::Integer(0);
            return (!part.is_undefined(no_name)).then(|| Test::Always(part.is_true(no_name)));
        };
        // Texts with signs between them are for the evaluation, as is whatever has no value.
        if field.is_text() && !is_plain(part) {
            return None;
        }
        match field {
            Field::Class => {
                let names = objects.class_names.iter();
                Some(Test::OfClass(names.map(|name| holds_for(part, name)).collect()))
            }
            Field::Type => {
                let snapshot = objects.analysis.snapshot();
                let name = |number| snapshot.node_type_name(NodeType(number));
                Some(Test::OfType((0..=u8::MAX).map(|one| holds_for(part, name(one))).collect()))
            }
            Field::Name => {
                let tests = NameTests::new(objects.analysis);
                Some(Test::OfName(NameTest::of(part), RefCell::new(tests).into()))
            }
            _ => Test::of_number(part),
        }
    }

    fn of_number(part: &Expression) -> Option<Self> {
        let Expression::Compared(sign, left, right) = part else { return None };
        let (name, constant, is_turned) = match (&**left, &**right) {
            (Expression::Name(name, ..), constant) => (name, constant, false),
            (constant, Expression::Name(name, ..)) => (name, constant, true),
            _ => return None,
        };
        let no_name = &mut |_: &str, _: Option<&str>| Value::Integer(0);
        if only_field(constant)?.is_some() || constant.is_undefined(no_name) {
            return None;
        }
        let Value::Integer(number) = constant.evaluate(no_name) else { return None };
        let [less, equal, more] = orders(sign)?;
        let orders = if is_turned { [more, equal, less] } else { [less, equal, more] };
        Some(Test::OfNumber(Field::named(name)?, orders, number.try_into().ok()?))
    }

    /// Right for the nodes that are `wanted`.
    fn truth<const N: usize>(
        &self,
        objects: &Objects,
        nodes: &[Node; N],
        mut wanted: [bool; N],
    ) -> Truth<N> {
        let analysis = objects.analysis;
        match self {
            Test::Always(holds) => Truth::of([*holds; N]),
            Test::Every(parts, must_hold) => {
                let mut every = Truth::of([true; N]);
                for part in parts {
                    let one = part.truth(objects, nodes, wanted);
                    and(&mut every.holds, one.holds);
                    and(&mut every.has_value, one.has_value);
                    if *must_hold {
                        and(&mut wanted, one.holds);
                        if !wanted.contains(&true) {
                            break;
                        }
                    }
                }
                every
            }
            Test::Any(parts) => {
                let mut none = Truth::of([true; N]);
                for part in parts {
                    let one = part.truth(objects, nodes, wanted);
                    and(&mut none.holds, one.holds.map(|holds| !holds));
                    and(&mut none.has_value, one.has_value);
                }
                none.turned()
            }
            Test::Not(part) => part.truth(objects, nodes, wanted).turned(),
            Test::OfClass(holds) => {
                Truth::of(nodes.map(|node| holds[analysis.class_of(node) as usize]))
            }
            Test::OfType(holds) => {
                let graph = &analysis.snapshot().graph;
                Truth::of(nodes.map(|node| holds[usize::from(graph.node_type(node).0)]))
            }
            Test::OfName(test, tests) => {
                let mut tests = tests.borrow_mut();
                Truth::of(from_fn(|at| {
                    wanted[at] && tests.holds(nodes[at], |name| test.holds(name))
                }))
            }
            Test::OfNumber(field, orders, number) => Truth::of(nodes.map(|node| {
                let order = objects.number(node, *field).map(|value| value.cmp(number));
                order.is_some_and(|order| is_one(order, *orders))
            })),
            Test::OfSums(orders, left, right, part) => {
                let (left, right) = (left.values(objects, nodes), right.values(objects, nodes));
                let mut truth = Truth {
                    holds: from_fn(|at| {
                        left[at].partial_cmp(&right[at]).is_some_and(|order| is_one(order, *orders))
                    }),
                    has_value: from_fn(|at| !left[at].is_infinite() && !right[at].is_infinite()),
                };
                let is_inexact = |at: &usize| left[*at].is_nan() || right[*at].is_nan();
                for at in (0..N).filter(|at| wanted[*at] && is_inexact(at)) {
                    truth.evaluate(at, objects, part, nodes[at]);
                }
                truth
            }
            Test::Evaluated(part) => {
                let mut truth = Truth::of([false; N]);
                for at in (0..N).filter(|at| wanted[*at]) {
                    truth.evaluate(at, objects, part, nodes[at]);
                }
                truth
            }
        }
    }
}

impl<'e> NameTest<'e> {
    fn of(part: &'e Expression) -> Self {
        let Expression::Compared(sign, left, right) = part else {
            return NameTest::Evaluated(part);
        };
        let (Expression::Name(..), Expression::Constant(Value::Text(text))) = (&**left, &**right)
        else {
            return NameTest::Evaluated(part);
        };
        match &**sign {
            // Names show U+FFFD for half a surrogate pair; their bytes have the half.
            _ if text.contains('\u{fffd}') => NameTest::Evaluated(part),
            "=" | "==" => NameTest::Is(text.as_bytes()),
            "!=" => NameTest::IsNot(text.as_bytes()),
            "~" => NameTest::Fits(Pattern::new(text)),
            _ => NameTest::Evaluated(part),
        }
    }

    fn holds(&self, name: Cow<[u8]>) -> bool {
        match self {
            NameTest::Is(text) => *name == **text,
            NameTest::IsNot(text) => *name != **text,
            NameTest::Fits(pattern) => pattern.fits_bytes(&name),
            NameTest::Evaluated(part) => holds_for(part, &to_text(name)),
        }
    }
}

impl<const N: usize> Truth<N> {
    fn of(holds: [bool; N]) -> Self {
        Truth { holds, has_value: [true; N] }
    }

    fn turned(self) -> Self {
        Truth { holds: self.holds.map(|holds| !holds), ..self }
    }

    fn evaluate(&mut self, at: usize, objects: &Objects, part: &Expression, node: Node) {
        let mut field = |name: &str, _: Option<&str>| objects.value(node, name);
        self.holds[at] = part.is_true(&mut field);
        self.has_value[at] = !part.is_undefined(&mut field);
    }
}

fn and<const N: usize>(all: &mut [bool; N], others: [bool; N]) {
    all.iter_mut().zip(others).for_each(|(one, other)| *one &= other);
}

/// Whether a comparison holds for less, equal, more.
fn orders(sign: &str) -> Option<[bool; 3]> {
    Some(match sign {
        "<" => [true, false, false],
        "<=" => [true, true, false],
        "=" | "==" => [false, true, false],
        "!=" => [true, false, true],
        ">=" => [false, true, true],
        ">" => [false, false, true],
        _ => return None,
    })
}

fn is_one(order: Ordering, orders: [bool; 3]) -> bool {
    orders[(order as i8 + 1) as usize]
}

impl Sum {
    /// `None`: a text is in it.
    fn of(expression: &Expression) -> Option<Sum> {
        match expression {
            Expression::Constant(Value::Text(_)) => None,
            Expression::Constant(number) => Some(Sum::Number(exact(number.number()))),
            Expression::Name(name, ..) => {
                Field::named(name).filter(|field| !field.is_text()).map(Sum::Field)
            }
            Expression::Computed(first, steps) => {
                let step = |sign: &str, sum| Some((*sign.as_bytes().first()?, Sum::of(sum)?));
                let steps: Option<Vec<_>> =
                    steps.iter().map(|(sign, sum)| step(sign, sum)).collect();
                Some(Sum::Steps(Sum::of(first)?.into(), steps?))
            }
            _ => None,
        }
    }

    /// Infinite: it is divided by zero. Not a number: it is too large to be exact.
    #[inline]
    fn values<const N: usize>(&self, objects: &Objects, nodes: &[Node; N]) -> [f64; N] {
        match self {
            Sum::Number(number) => [*number; N],
            Sum::Field(field) => {
                nodes.map(|node| exact(objects.number(node, *field).unwrap_or_default() as f64))
            }
            Sum::Steps(first, steps) => Sum::computed(first, steps, objects, nodes),
        }
    }

    fn computed<const N: usize>(
        first: &Sum,
        steps: &[(u8, Sum)],
        objects: &Objects,
        nodes: &[Node; N],
    ) -> [f64; N] {
        let mut values = first.values(objects, nodes);
        for (sign, sum) in steps {
            let rights = sum.values(objects, nodes);
            match sign {
                b'+' => join(&mut values, rights, |value, right| exact(value + right)),
                b'-' => join(&mut values, rights, |value, right| exact(value - right)),
                b'*' => join(&mut values, rights, |value, right| exact(value * right)),
                _ => join(&mut values, rights, |value, right| {
                    if right == 0.0 { f64::INFINITY } else { exact(value / right) }
                }),
            }
        }
        values
    }
}

/// Joins each pair; whatever is divided by zero, or has such a part, is infinite.
fn join<const N: usize>(values: &mut [f64; N], rights: [f64; N], joined: impl Fn(f64, f64) -> f64) {
    for (value, right) in values.iter_mut().zip(rights) {
        let is_infinite = value.is_infinite() || right.is_infinite();
        *value = if is_infinite { f64::INFINITY } else { joined(*value, right) };
    }
}

fn exact(number: f64) -> f64 {
    if number.abs() < EXACT { number } else { f64::NAN }
}

impl Objects<'_, '_, '_> {
    fn value(&self, node: Node, name: &str) -> Value {
        match Field::named(name).map(|field| self.field(node, field)) {
            Some(Cell::Number(number)) => Value::from(number),
            Some(Cell::Text(text)) => Value::Text(text),
            None => Value::Integer(0),
        }
    }
}

/// The one field that decides, or none; `None`: there are several.
fn only_field(part: &Expression) -> Option<Option<Field>> {
    let mut fields = Vec::new();
    part.names(&mut |name, _, _| fields.extend(Field::named(name)));
    match fields[..] {
        [] => Some(None),
        [first, ref others @ ..] => {
            others.iter().all(|other| *other == first).then_some(Some(first))
        }
    }
}

/// Whether names and constants are compared, without signs between them.
fn is_plain(part: &Expression) -> bool {
    let is_single =
        |side: &Expression| matches!(side, Expression::Name(..) | Expression::Constant(_));
    matches!(part, Expression::Compared(_, left, right) if is_single(left) && is_single(right))
}

/// Whether a comparison holds of a text, whatever field it names.
fn holds_for(part: &Expression, text: &str) -> bool {
    part.is_true(&mut |_, _| Value::Text(text.into()))
}
