//! What a person writes as a condition: any text, read, and computed with any values.

use heaplab_expression::{Expression, Value};

/// One input.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = heaplab_expression::bytes(&text);
    match Expression::read(&text) {
        Err(misread) => assert!(misread.to_string().ends_with('^'), "the place is shown"),
        Ok(expression) => {
            let value = |name: &str, argument: Option<&str>| match (name.len() % 3, argument) {
                (0, Some(text)) => Value::Text(text.to_owned()),
                (1, _) => Value::Number(0.5),
                (length, _) => Value::from(u64::MAX - length as u64),
            };
            expression.is_undefined(&mut { value });
            // Computed twice it is the same.
            let holds = expression.is_true(&mut { value });
            assert_eq!(holds, expression.is_true(&mut { value }));
        }
    }
}
