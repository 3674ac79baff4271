//! The name `baseline`: the other side of its comparison, in the recording of `--baseline`.
//!
//! `peak < 1.1 * baseline` compares the peak with that of the baseline. While an assertion is read,
//! the other side replaces the name, with its names marked as the baseline's. To mislead nobody, a
//! side has either `baseline` or names of the recording, never both.

use heaplab_expression::Expression;
use heaplab_trace::tables::Tables;
use std::collections::HashSet;

/// In front of a name: of the baseline. No name that is written has a space.
const OF_BASELINE: &str = "baseline ";
const NAME: &str = "baseline";

/// Whether a name is asked of the baseline, and its own text.
pub(crate) fn split(name: &str) -> (bool, &str) {
    match name.strip_prefix(OF_BASELINE) {
        Some(name) => (true, name),
        None => (false, name),
    }
}

/// The expression with `baseline` replaced. The error is a place and the fault there.
pub(crate) fn replaced(expression: &Expression) -> Result<Expression, (usize, String)> {
    let all = |each: &[Expression]| each.iter().map(replaced).collect::<Result<Vec<_>, _>>();
    Ok(match expression {
        Expression::Every(each) => Expression::Every(all(each)?),
        Expression::Any(each) => Expression::Any(all(each)?),
        Expression::Not(one) => Expression::Not(replaced(one)?.into()),
        Expression::Compared(sign, left, right) => {
            let (left, right) = match (place(left), place(right)) {
                (None, None) => (left.clone(), right.clone()),
                (Some(at), Some(_)) => {
                    return Err((at, "baseline stands for the other side of the comparison, and that is one itself".into()));
                }
                (Some(at), None) => (with(left, right, at)?.into(), right.clone()),
                (None, Some(at)) => (left.clone(), with(right, left, at)?.into()),
            };
            Expression::Compared(sign, left, right)
        }
        other => other.clone(),
    })
}

/// The first place of `baseline` in the expression; `None`: it has none.
fn place(expression: &Expression) -> Option<usize> {
    let mut place = None;
    expression.names(&mut |name, _, at| {
        if name == NAME {
            place.get_or_insert(at);
        }
    });
    place
}

/// One side with `baseline`, at `at`, replaced by the other.
fn with(side: &Expression, other: &Expression, at: usize) -> Result<Expression, (usize, String)> {
    let mut own = None;
    side.names(&mut |name, argument, at| {
        if name != NAME || argument.is_some() {
            own.get_or_insert(at);
        }
    });
    if let Some(at) = own {
        return Err((at, "baseline stands for the other side of the comparison, and no other name can stand beside it: write peak < baseline + 1MB, and not peak - baseline < 1MB".into()));
    }
    let mut names = 0;
    other.names(&mut |_, _, _| names += 1);
    if names == 0 {
        return Err((at, "baseline stands for the other side of the comparison, which has no name: write peak < 1.1 * baseline".into()));
    }
    Ok(put(side, &marked(other)))
}

fn put(side: &Expression, what: &Expression) -> Expression {
    each(side, &|name, argument, place| {
        if name == NAME {
            what.clone()
        } else {
            Expression::Name(name.to_owned(), argument.clone(), place)
        }
    })
}

fn marked(expression: &Expression) -> Expression {
    each(expression, &|name, argument, place| {
        Expression::Name(format!("{OF_BASELINE}{name}"), argument.clone(), place)
    })
}

/// The expression with each name replaced.
fn each(
    expression: &Expression,
    name: &dyn Fn(&str, &Option<String>, usize) -> Expression,
) -> Expression {
    let one = |expression: &Expression| each(expression, name);
    match expression {
        Expression::Constant(_) => expression.clone(),
        Expression::Name(text, argument, place) => name(text, argument, *place),
        Expression::Compared(sign, left, right) => {
            Expression::Compared(sign, one(left).into(), one(right).into())
        }
        Expression::Computed(first, steps) => Expression::Computed(
            one(first).into(),
            steps.iter().map(|(sign, step)| (*sign, one(step))).collect(),
        ),
        Expression::Every(all) => Expression::Every(all.iter().map(one).collect()),
        Expression::Any(all) => Expression::Any(all.iter().map(one).collect()),
        Expression::Not(inner) => Expression::Not(one(inner).into()),
    }
}

/// Whether under half of the functions of one recording are in the other: builds of one program
/// have other names, too.
pub(crate) fn share_few_functions(one: &Tables, other: &Tables) -> bool {
    let [one, other] = [one, other].map(|tables| {
        let functions = tables.frames.iter().filter_map(|frame| frame.function.as_deref());
        functions.collect::<HashSet<&str>>()
    });
    one.intersection(&other).count() * 2 <= one.len().min(other.len())
}
