//! A condition on objects, prepared for a heap of millions of them.
//!
//! What depends on an object's class, its type or its name alone is decided once a class, a type or
//! a name. Sums of numbers are computed as doubles while doubles are exact. The rest is evaluated
//! for each object.

use super::object::{Cell, Objects};
use super::plan::Field;
use crate::Node;
use crate::analysis::NameTests;
use crate::meta::NodeType;
use heaplab_expression::{Expression, Value};
use std::cell::RefCell;
use std::cmp::Ordering;

/// A condition on the objects of one heap.
pub struct Condition<'e, 'q, 's, 'a> {
    objects: &'e Objects<'q, 's, 'a>,
    test: Test<'e, 'q, 's, 'a>,
    /// Parts that may have no value, which makes the condition false, whatever stands beside them.
    computed: Vec<&'e Expression>,
}

/// A part of a condition, by what decides it.
enum Test<'e, 'q, 's, 'a> {
    Always(bool),
    Every(Vec<Test<'e, 'q, 's, 'a>>),
    Any(Vec<Test<'e, 'q, 's, 'a>>),
    Not(Box<Test<'e, 'q, 's, 'a>>),
    /// By the class's index.
    OfClass(Vec<bool>),
    /// By the type's number.
    OfType(Vec<bool>),
    OfName(&'e Expression, Box<RefCell<NameTests<'q, 's, 'a>>>),
    /// Whether the field may be less than, equal to, more than the number.
    OfNumber(Field, [bool; 3], i64),
    /// The same of two sums, and the expression of both.
    OfSums([bool; 3], Sum, Sum, &'e Expression),
    Evaluated(&'e Expression),
}

/// Numbers and fields with signs between them.
enum Sum {
    Number(f64),
    Field(Field),
    Steps(Box<Sum>, Vec<(u8, Sum)>),
}

/// Doubles hold whole numbers up to here exactly: below, sums of doubles are those of expressions.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl<'e, 'q, 's, 'a> Condition<'e, 'q, 's, 'a> {
    /// Of an expression whose names are fields of objects.
    pub fn new(objects: &'e Objects<'q, 's, 'a>, expression: &'e Expression) -> Self {
        let mut computed = Vec::new();
        let test = Test::of(objects, expression, true, &mut computed);
        Condition { objects, test, computed }
    }

    /// Whether it holds for an object. A quotient by zero is neither above nor below any number.
    pub fn holds(&self, node: Node) -> bool {
        self.test.holds(self.objects, node)
            && !self
                .computed
                .iter()
                .any(|part| part.is_undefined(&mut |name, _| self.objects.value(node, name)))
    }
}

impl<'e, 'q, 's, 'a> Test<'e, 'q, 's, 'a> {
    /// `must_hold`: where the part does not hold, the condition does not.
    fn of(
        objects: &Objects<'q, 's, 'a>,
        expression: &'e Expression,
        must_hold: bool,
        computed: &mut Vec<&'e Expression>,
    ) -> Self {
        let mut of = |part, must_hold| Test::of(objects, part, must_hold, computed);
        match expression {
            Expression::Every(parts) => {
                Test::Every(parts.iter().map(|part| of(part, must_hold)).collect())
            }
            Expression::Any(parts) => Test::Any(parts.iter().map(|part| of(part, false)).collect()),
            Expression::Not(part) => Test::Not(of(part, false).into()),
            part => Test::of_comparison(objects, part).unwrap_or_else(|| {
                let sums = Test::of_sums(part);
                // A sum without a value does not hold.
                if sums.is_none() || !must_hold {
                    computed.push(part);
                }
                sums.unwrap_or(Test::Evaluated(part))
            }),
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
                Some(Test::OfName(part, RefCell::new(NameTests::new(objects.analysis)).into()))
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

    fn holds(&self, objects: &Objects, node: Node) -> bool {
        let analysis = objects.analysis;
        match self {
            Test::Always(holds) => *holds,
            Test::Every(parts) => parts.iter().all(|part| part.holds(objects, node)),
            Test::Any(parts) => parts.iter().any(|part| part.holds(objects, node)),
            Test::Not(part) => !part.holds(objects, node),
            Test::OfClass(holds) => holds[analysis.class_of(node) as usize],
            Test::OfType(holds) => holds[usize::from(analysis.snapshot().graph.node_type(node).0)],
            Test::OfName(part, tests) => {
                tests.borrow_mut().holds(node, |name| holds_for(part, name))
            }
            Test::OfNumber(field, orders, number) => {
                let order = objects.number(node, *field).map(|value| value.cmp(number));
                order.is_some_and(|order| is_one(order, *orders))
            }
            Test::OfSums(orders, left, right, part) => {
                let (left, right) = (left.value(objects, node), right.value(objects, node));
                match left.partial_cmp(&right) {
                    Some(_) if left.is_infinite() || right.is_infinite() => false,
                    Some(order) => is_one(order, *orders),
                    None => {
                        let mut field = |name: &str, _: Option<&str>| objects.value(node, name);
                        part.is_true(&mut field) && !part.is_undefined(&mut field)
                    }
                }
            }
            Test::Evaluated(part) => part.is_true(&mut |name, _| objects.value(node, name)),
        }
    }
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
    fn value(&self, objects: &Objects, node: Node) -> f64 {
        match self {
            Sum::Number(number) => *number,
            Sum::Field(field) => exact(objects.number(node, *field).unwrap_or_default() as f64),
            Sum::Steps(first, steps) => Sum::computed(first, steps, objects, node),
        }
    }

    fn computed(first: &Sum, steps: &[(u8, Sum)], objects: &Objects, node: Node) -> f64 {
        let mut value = first.value(objects, node);
        for (sign, sum) in steps {
            let right = sum.value(objects, node);
            value = exact(match sign {
                b'+' => value + right,
                b'-' => value - right,
                b'*' => value * right,
                _ if right == 0.0 => return f64::INFINITY,
                _ => value / right,
            });
        }
        value
    }
}

fn exact(number: f64) -> f64 {
    if number.abs() <= EXACT { number } else { f64::NAN }
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
