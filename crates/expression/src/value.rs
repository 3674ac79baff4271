//! Values while they are computed. Whole numbers stay whole: a sum of bytes is exact, however
//! large.

use crate::Pattern;

/// Whole numbers up to here are exact as a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A value while it is computed.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(String),
}

impl From<u64> for Value {
    fn from(whole: u64) -> Value {
        Value::Integer(whole.into())
    }
}

impl From<i64> for Value {
    fn from(whole: i64) -> Value {
        Value::Integer(whole.into())
    }
}

/// A whole number where it is one that a double has exactly.
impl From<f64> for Value {
    fn from(number: f64) -> Value {
        if number.fract() == 0.0 && number.abs() <= EXACT {
            Value::Integer(number as i128)
        } else {
            Value::Number(number)
        }
    }
}

impl Value {
    /// As a double; not a number: it is a text.
    pub fn number(&self) -> f64 {
        match self {
            Value::Integer(whole) => *whole as f64,
            Value::Number(number) => *number,
            Value::Text(_) => f64::NAN,
        }
    }

    pub(crate) fn truth(is: bool) -> Value {
        Value::Integer(is.into())
    }

    /// Whether it is no number beyond all.
    pub(crate) fn is_finite(&self) -> bool {
        !matches!(self, Value::Number(number) if !number.is_finite())
    }

    /// Whether it is a number and not zero.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Value::Integer(whole) => *whole != 0,
            Value::Number(number) => *number != 0.0,
            Value::Text(_) => false,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        !matches!(self, Value::Text(_)) && !self.is_true()
    }

    /// Two values with a sign between them. Whole numbers stay whole as long as they fit.
    pub(crate) fn join(&self, sign: &str, right: &Value) -> Value {
        match (self, right) {
            (Value::Integer(left), Value::Integer(right)) => whole(sign, *left, *right),
            (Value::Text(left), Value::Text(right)) => texts(sign, left, right),
            // A number and a text are never equal.
            (Value::Text(_), _) | (_, Value::Text(_)) => Value::truth(sign == "!="),
            (left, right) => numbers(sign, left.number(), right.number()),
        }
    }
}

fn whole(sign: &str, left: i128, right: i128) -> Value {
    let exact = match sign {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => {
            left.checked_rem(right).filter(|rest| *rest == 0).and_then(|_| left.checked_div(right))
        }
        _ => match compared(sign, left.cmp(&right)) {
            Some(is) => return Value::truth(is),
            // No number fits a pattern.
            None => return Value::truth(false),
        },
    };
    exact.map_or_else(|| numbers(sign, left as f64, right as f64), Value::Integer)
}

fn numbers(sign: &str, left: f64, right: f64) -> Value {
    match sign {
        "+" => Value::Number(left + right),
        "-" => Value::Number(left - right),
        "*" => Value::Number(left * right),
        "/" => Value::Number(left / right),
        // What is no number is neither more nor less than anything.
        _ => match left.partial_cmp(&right) {
            Some(order) => Value::truth(compared(sign, order).unwrap_or(false)),
            None => Value::truth(sign == "!="),
        },
    }
}

fn texts(sign: &str, left: &str, right: &str) -> Value {
    match sign {
        "~" => Value::truth(Pattern::text_fits(right, left)),
        _ => compared(sign, left.cmp(right)).map_or(Value::Number(f64::NAN), Value::truth),
    }
}

/// What a comparison says of two that are so ordered; `None`: it is none.
fn compared(sign: &str, order: std::cmp::Ordering) -> Option<bool> {
    Some(match sign {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "!=" => order.is_ne(),
        "=" | "==" => order.is_eq(),
        _ => return None,
    })
}
