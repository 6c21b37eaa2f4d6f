//! Static check that a CEL expression can give a boolean.
//!
//! It rejects only what is certainly wrong, since attributes have no type before a trace arrives.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

/// Rejects an expression that never gives a boolean; the error describes its type.
pub(super) fn check(expression: &IdedExpr) -> Result<(), &'static str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::Boolean(_)) => Ok(()),
        Expr::Literal(LiteralValue::String(_)) => Err("a text"),
        Expr::Literal(_) => Err("a constant"),
        Expr::List(_) => Err("a list"),
        Expr::Map(_) => Err("a map"),
        Expr::Ident(name) => match name.as_str() {
            "service_name" | "agent_name" | "session_id" | "trace_id" | "span_name" => {
                Err("a text")
            }
            "resource" | "attributes" => Err("a map"),
            "tool_names" | "spans" => Err("a list"),
            _ => Ok(()),
        },
        Expr::Call(call) => check_call(call),
        // `map` and `filter` accumulate a list; the other macros fold booleans.
        Expr::Comprehension(inner) => match &inner.accu_init.expr {
            Expr::List(_) => Err("a list"),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check_call(call: &CallExpr) -> Result<(), &'static str> {
    match call.func_name.as_str() {
        operators::CONDITIONAL => call.args.iter().skip(1).try_for_each(check),
        operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
            call.args.iter().try_for_each(check)
        }
        operators::ADD => Err("a sum"),
        operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO
        | operators::NEGATE
        | "size"
        | "int"
        | "uint"
        | "double" => Err("a number"),
        "string" => Err("a text"),
        _ => Ok(()),
    }
}

/// Variables with texts.
const TEXTS: [&str; 7] = [
    "service_name", "agent_name", "session_id", "trace_id", "span_name", "user_input",
    "final_output",
];

/// Returns the text variable that an expression compares with another type, which is never true.
pub(super) fn text_compared_with_other(expression: &IdedExpr) -> Option<&str> {
    let Expr::Call(call) = &expression.expr else { return None };
    let is_comparison = matches!(
        call.func_name.as_str(),
        operators::EQUALS
            | operators::NOT_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
    );
    let named = |expression: &IdedExpr| match &expression.expr {
        Expr::Ident(name) => TEXTS.into_iter().find(|text| text == name),
        _ => None,
    };
    let is_other = |expression: &IdedExpr| {
        let Expr::Literal(literal) = &expression.expr else { return false };
        !matches!(literal, LiteralValue::String(_) | LiteralValue::Null)
    };
    let (Some(name), true) = (call.args.iter().find_map(named), call.args.iter().any(is_other))
    else {
        return call.args.iter().find_map(text_compared_with_other);
    };
    if is_comparison { Some(name) } else { None }
}

#[cfg(test)]
mod tests {
    use cel::Env;

    use super::*;

    #[test]
    fn texts_compared_with_other_values_are_found() {
        let check = |text: &str, expected: Option<&str>| {
            let compiled = Env::stdlib().compile(text).expect(text);
            assert_eq!(text_compared_with_other(compiled.expression()), expected, "{text}");
        };
        check("service_name > 5", Some("service_name"));
        check("size(tool_names) > 1 && !(true == user_input)", Some("user_input"));
        check(r#"service_name > "a" && size(user_input) > 5 && attributes.x == 5"#, None);
        check("session_id != null", None);
    }

    #[test]
    fn what_is_surely_no_truth_value_is_named() {
        let found = |text: &str| check(Env::stdlib().compile(text).expect(text).expression());
        for text in [
            "true",
            r#"service_name == "x""#,
            r#"attributes["is_test"]"#,
            "attributes.flag && !has(attributes.x)",
            r#"tool_names.exists(t, t == "x")"#,
            r#""x" in tool_names ? attributes.a : attributes.b"#,
            r#"service_name.startsWith("x")"#,
        ] {
            assert_eq!(found(text), Ok(()), "{text}");
        }
        for (text, what) in [
            ("service_name", "a text"),
            (r#""shop""#, "a text"),
            ("size(tool_names)", "a number"),
            ("tool_names.size()", "a number"),
            ("tool_names", "a list"),
            (r#"tool_names.filter(t, t == "x")"#, "a list"),
            ("attributes", "a map"),
            (r#"service_name + "x""#, "a sum"),
            (r#"service_name && agent_name == "x""#, "a text"),
            ("!size(tool_names)", "a number"),
            ("1", "a constant"),
        ] {
            assert_eq!(found(text), Err(what), "{text}");
        }
    }
}
