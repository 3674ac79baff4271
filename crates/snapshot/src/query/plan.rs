//! A parsed query.

use heaplab_expression::{Expression, Misread, Token, Tokens};
/// A column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The object's id.
    Id,
    /// "object", "string", ...
    Type,
    /// Its class's name.
    Class,
    /// Its name as DevTools shows it.
    Name,
    /// Own bytes; of a group, their sum.
    Shallow,
    /// Retained bytes; of a group, by all together.
    Retained,
    /// References from a root; of a group, the least.
    Distance,
    /// 1 for a detached node of a page.
    Detached,
    /// Number of the object's references.
    References,
    /// The id of the object's dominator.
    Dominator,
    /// Objects of the group.
    Count,
}

const FIELDS: [(Field, &str); 11] = [
    (Field::Id, "id"),
    (Field::Type, "type"),
    (Field::Class, "class"),
    (Field::Name, "name"),
    (Field::Shallow, "shallow"),
    (Field::Retained, "retained"),
    (Field::Distance, "distance"),
    (Field::Detached, "detached"),
    (Field::References, "references"),
    (Field::Dominator, "dominator"),
    (Field::Count, "count"),
];

impl Field {
    /// Its name in a query.
    pub fn name(self) -> &'static str {
        FIELDS.iter().find(|(field, _)| *field == self).map_or("", |(_, name)| name)
    }

    /// Its name in JSON and Parquet, which ends in its unit.
    pub fn json_name(self) -> &'static str {
        match self {
            Field::Shallow => "shallow_bytes",
            Field::Retained => "retained_bytes",
            other => other.name(),
        }
    }

    /// Whether the field is a text rather than a number.
    pub fn is_text(self) -> bool {
        matches!(self, Field::Type | Field::Class | Field::Name)
    }

    pub(super) fn named(name: &str) -> Option<Field> {
        FIELDS.iter().find(|(_, known)| *known == name).map(|(field, _)| *field)
    }
}

/// The clauses.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Which objects.
    pub condition: Option<Expression>,
    /// What groups share; empty: no groups.
    pub group: Vec<Field>,
    /// By what, and whether the largest comes first.
    pub sort: Option<(Field, bool)>,
    /// So many rows.
    pub top: Option<usize>,
    /// Which fields; empty: the usual ones.
    pub select: Vec<Field>,
}

impl Plan {
    /// Reads a query.
    pub fn read(text: &str) -> Result<Plan, Misread> {
        let mut tokens = Tokens::of(text)?;
        let mut plan = Plan::default();
        let optional_bar = |tokens: &mut Tokens| tokens.sign("|");
        if tokens.word("where") {
            let condition = condition(&mut tokens)?;
            plan.condition = Some(condition);
            optional_bar(&mut tokens);
        }
        if tokens.word("group") {
            plan.group = fields(&mut tokens, &[Field::Count, Field::Shallow, Field::Retained])?;
            optional_bar(&mut tokens);
        }
        if tokens.word("sort") {
            let field = plan.field(&mut tokens)?;
            let ascending = tokens.word("asc");
            let descending = !ascending
                && (tokens.word("desc")
                    || !(field.is_text() || matches!(field, Field::Id | Field::Distance)));
            plan.sort = Some((field, descending));
            optional_bar(&mut tokens);
        }
        if tokens.word("top") {
            match tokens.peek() {
                Some(Token::Integer(number)) if *number >= 1 => plan.top = Some(*number as usize),
                _ => return Err(tokens.misread("expected how many rows")),
            }
            tokens.take();
            optional_bar(&mut tokens);
        }
        if tokens.word("select") {
            plan.select.push(plan.field(&mut tokens)?);
            while tokens.sign(",") {
                plan.select.push(plan.field(&mut tokens)?);
            }
        }
        match tokens.peek() {
            None => Ok(plan),
            Some(_) => {
                Err(tokens.misread("expected where, group, sort, top or select, in this order"))
            }
        }
    }

    /// A field that rows of this plan have.
    fn field(&self, tokens: &mut Tokens) -> Result<Field, Misread> {
        let known = |field: &Field| {
            if self.group.is_empty() {
                *field != Field::Count
            } else {
                self.group.contains(field)
                    || matches!(
                        field,
                        Field::Count | Field::Shallow | Field::Retained | Field::Distance
                    )
            }
        };
        let field = match tokens.peek() {
            Some(Token::Word(word)) => Field::named(word).filter(known),
            _ => None,
        };
        let what = if self.group.is_empty() {
            of_objects()
        } else {
            "those of the group, count, shallow, retained, distance".into()
        };
        let field = field.ok_or_else(|| tokens.misread(format!("expected a field: {what}")))?;
        tokens.take();
        Ok(field)
    }

    /// The columns of the answer.
    pub fn columns(&self) -> Vec<Field> {
        if !self.select.is_empty() {
            return self.select.clone();
        }
        if self.group.is_empty() {
            return vec![
                Field::Id,
                Field::Shallow,
                Field::Retained,
                Field::Distance,
                Field::Type,
                Field::Class,
                Field::Name,
            ];
        }
        let mut columns = vec![Field::Count, Field::Shallow, Field::Retained];
        if !self.group.contains(&Field::Distance) {
            columns.push(Field::Distance);
        }
        columns.extend(&self.group);
        columns
    }
}

/// Reads a condition on objects alone: what stands behind `where`.
///
/// # Errors
/// The text is none; the error points at the place.
pub fn read_condition(text: &str) -> Result<Expression, Misread> {
    let mut tokens = Tokens::of(text)?;
    let condition = condition(&mut tokens)?;
    match tokens.peek() {
        None => Ok(condition),
        Some(_) => Err(tokens.misread("expected and, or, or the end")),
    }
}

fn condition(tokens: &mut Tokens) -> Result<Expression, Misread> {
    let condition = Expression::all(tokens, 0)?;
    let mut unknown = None;
    condition.names(&mut |name, argument, place| {
        let is_field = Field::named(name).is_some_and(|field| field != Field::Count);
        if argument.is_some() || !is_field {
            unknown.get_or_insert((name.to_string(), place));
        }
    });
    match unknown {
        None => Ok(condition),
        Some((name, place)) => Err(tokens.misread_at(
            place,
            format!("{name} is not a field of an object; there are {}", of_objects()),
        )),
    }
}

fn of_objects() -> String {
    FIELDS.map(|(_, name)| name)[..FIELDS.len() - 1].join(", ")
}

fn fields(tokens: &mut Tokens, forbidden: &[Field]) -> Result<Vec<Field>, Misread> {
    let mut fields = Vec::new();
    loop {
        let field = match tokens.peek() {
            Some(Token::Word(word)) => Field::named(word)
                .filter(|field| !forbidden.contains(field) && !fields.contains(field)),
            _ => None,
        };
        fields.push(field.ok_or_else(|| {
            tokens.misread("expected a field to group by: type, class, name, distance, detached, references, dominator, id")
        })?);
        tokens.take();
        if !tokens.sign(",") {
            return Ok(fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_come_in_order_and_each_as_needed() {
        let plan = Plan::read("where class = \"Session\" and retained > 1MB | sort retained | top 3 | select id, name").unwrap();
        assert_eq!((plan.sort, plan.top), (Some((Field::Retained, true)), Some(3)));
        assert_eq!(plan.columns(), [Field::Id, Field::Name]);
        let plan = Plan::read("group type, class sort type").unwrap();
        assert_eq!(
            (plan.group.as_slice(), plan.sort),
            (&[Field::Type, Field::Class][..], Some((Field::Type, false)))
        );
        assert!(Plan::read("").unwrap().columns().contains(&Field::Name));
    }

    #[test]
    fn what_is_not_understood_is_pointed_at() {
        let misread = |text: &str| Plan::read(text).unwrap_err().to_string();
        assert!(
            misread("where size > 1")
                .starts_with("size is not a field of an object; there are id, type")
        );
        assert!(
            misread("sort retained | where id = 1")
                .contains("in this order\n  sort retained | where id = 1\n                  ^")
        );
        assert!(misread("group class | sort id").contains("those of the group"));
        assert!(
            misread("top 0").contains("how many")
                && misread("top 1.5").contains("how many")
                && misread("group count").contains("group by")
        );
        assert!(misread("sort count").contains("expected a field"));
    }
}
