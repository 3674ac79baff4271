//! Values while they are computed. Whole numbers stay whole: a sum of bytes is exact, however
//! large.

use crate::Pattern;
use std::cmp::Ordering;

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
        let (left, right) = match (self.as_number(), right.as_number()) {
            (Ok(left), Ok(right)) => (left, right),
            (Err(left), Err(right)) => return texts(sign, left, right),
            // A number and a text are never equal.
            _ => return Value::truth(sign == "!="),
        };
        match Operator::of(sign) {
            Some(operator) => left.computed(operator, right).into(),
            None => Value::truth(match left.order(right) {
                // No number fits a pattern.
                Some(order) => compared(sign, order).unwrap_or(false),
                // What is no number is neither more nor less than anything.
                None => sign == "!=",
            }),
        }
    }

    fn as_number(&self) -> Result<Number, &str> {
        match self {
            Value::Integer(whole) => Ok(Number::Whole(*whole)),
            Value::Number(number) => Ok(Number::Double(*number)),
            Value::Text(text) => Err(text),
        }
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        match number {
            Number::Whole(whole) => Value::Integer(whole),
            Number::Double(number) => Value::Number(number),
        }
    }
}

/// + - * /.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// +
    Add,
    /// -
    Subtract,
    /// *
    Multiply,
    /// /
    Divide,
}

impl Operator {
    /// By its sign.
    pub fn of(sign: &str) -> Option<Operator> {
        Some(match sign {
            "+" => Operator::Add,
            "-" => Operator::Subtract,
            "*" => Operator::Multiply,
            "/" => Operator::Divide,
            _ => return None,
        })
    }
}

/// A number while it is computed, for callers that compute millions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Whole(i128),
    /// Any other number.
    Double(f64),
}

impl Number {
    fn double(self) -> f64 {
        match self {
            // The conversion of 128 bits is slow.
            Number::Whole(whole) => i64::try_from(whole).map_or(whole as f64, |small| small as f64),
            Number::Double(number) => number,
        }
    }

    /// Whether it is a number that a text can name: no quotient by zero, nothing too large.
    pub fn is_finite(self) -> bool {
        !matches!(self, Number::Double(number) if !number.is_finite())
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.double() == 0.0
    }

    /// The result of an operation. Whole numbers stay whole as long as they fit.
    #[inline]
    pub fn computed(self, operator: Operator, right: Number) -> Number {
        let exact = match (self, right) {
            (Number::Whole(left), Number::Whole(right)) => whole(operator, left, right),
            _ => None,
        };
        exact.map_or_else(|| self.rounded(operator, right), Number::Whole)
    }

    fn rounded(self, operator: Operator, right: Number) -> Number {
        let (left, right) = (self.double(), right.double());
        Number::Double(match operator {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Divide => left / right,
        })
    }

    /// How two numbers are ordered; `None`: one is not a number.
    #[inline]
    pub fn order(self, right: Number) -> Option<Ordering> {
        match (self, right) {
            (Number::Whole(left), Number::Whole(right)) => Some(left.cmp(&right)),
            (left, right) => left.double().partial_cmp(&right.double()),
        }
    }
}

#[inline]
fn whole(operator: Operator, left: i128, right: i128) -> Option<i128> {
    match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        // Most numbers are small, and 128 bits are slow to divide.
        Operator::Divide => match (i64::try_from(left), i64::try_from(right)) {
            (Ok(left), Ok(right)) => {
                left.checked_rem(right).filter(|rest| *rest == 0).map(|_| (left / right).into())
            }
            _ => left.checked_rem(right).filter(|rest| *rest == 0).map(|_| left / right),
        },
    }
}

fn texts(sign: &str, left: &str, right: &str) -> Value {
    match sign {
        "~" => Value::truth(Pattern::new(right).fits(left)),
        _ => compared(sign, left.cmp(right)).map_or(Value::Number(f64::NAN), Value::truth),
    }
}

/// What a comparison says of two that are so ordered; `None`: it is none.
fn compared(sign: &str, order: Ordering) -> Option<bool> {
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
