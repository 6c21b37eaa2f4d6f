//! Metered CEL: a compiled expression is rewritten so that each iteration of a macro (`exists`,
//! `all`, `map`, `filter`) and each pattern search charges a step budget, and fails once it is
//! spent.
//!
//! An iteration charges the budget by reading a variable that no expression can name: `@` and a
//! number. Patterns must be literals; they are compiled once, with the expression.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::CelBool;
use cel::{Context, ExecutionError, Value};
use regex::Regex;

/// Steps to evaluate one node of an expression.
const STEPS_PER_PART: usize = 64;
/// Steps of one pattern search, without those per byte.
const STEPS_PER_SEARCH: usize = 128;
const STEPS_PER_BYTE: usize = 2;
/// Size limit of one compiled pattern, bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Step budget of one evaluation, shared with the interpreter's functions.
#[derive(Clone, Debug)]
pub(super) struct StepsLeft(Arc<AtomicUsize>);

impl StepsLeft {
    pub(super) fn new(steps: usize) -> Self {
        // Stored plus one: 0 means overdrawn.
        Self(Arc::new(AtomicUsize::new(steps.saturating_add(1))))
    }

    /// Charges steps; false, from then on always, if too few are left.
    pub(super) fn take(&self, steps: usize) -> bool {
        // Only the evaluating thread charges steps, so a load and a store suffice. It is atomic
        // because the CEL crate requires thread-safe functions.
        let left = self.0.load(Ordering::Relaxed);
        let left = left.checked_sub(steps).filter(|left| *left > 0).unwrap_or(0);
        self.0.store(left, Ordering::Relaxed);
        left > 0
    }

    /// Returns true if the budget is overdrawn.
    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Returns the remaining steps.
    pub(super) fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed).saturating_sub(1)
    }
}

/// Metered expression: its iterations and searches charge steps.
pub(super) struct Counted {
    expression: IdedExpr,
    patterns: Vec<Arc<Regex>>,
    /// Nodes of the expression, as the steps to evaluate each once.
    steps: usize,
}

/// Reason why an expression cannot be metered.
pub(super) enum Uncountable {
    /// A pattern is not a literal in the expression.
    PatternOfData,
    /// A pattern is not a valid regular expression.
    Pattern(String),
}

impl Counted {
    /// Rewrites a compiled expression.
    pub(super) fn new(expression: &IdedExpr) -> Result<Self, Uncountable> {
        let mut expression = expression.clone();
        let mut patterns = Vec::new();
        let steps = change(&mut expression, &mut patterns)?;
        Ok(Self { expression, patterns, steps })
    }

    /// Evaluates it. `left` must be the budget charged by the context's resolver.
    pub(super) fn execute(
        &self,
        context: &mut Context<'_, '_>,
        left: &StepsLeft,
    ) -> Result<Value, ExecutionError> {
        if !left.take(self.steps * STEPS_PER_PART) {
            return Err(spent());
        }
        for (number, pattern) in self.patterns.iter().enumerate() {
            let pattern = Arc::clone(pattern);
            let left = left.clone();
            let search = move |text: Arc<String>| {
                if !left.take(STEPS_PER_SEARCH + text.len() * STEPS_PER_BYTE) {
                    return Err(spent());
                }
                Ok(Value::Bool(pattern.is_match(&text)))
            };
            context.add_function(&search_name(number), search).map_err(|_| spent())?;
        }
        Value::resolve(&self.expression, context)
    }
}

/// Parses the steps from a variable written by [`take_first`]; `None` for other variables.
pub(super) fn steps_of(variable: &str) -> Option<usize> {
    variable.strip_prefix('@')?.parse().ok()
}

fn spent() -> ExecutionError {
    ExecutionError::FunctionError { function: "steps".to_owned(), message: "none left".to_owned() }
}

fn search_name(number: usize) -> String {
    format!("@search{number}")
}

/// Rewrites an expression; returns its original number of nodes.
fn change(expression: &mut IdedExpr, patterns: &mut Vec<Arc<Regex>>) -> Result<usize, Uncountable> {
    let below = parts_of(&mut expression.expr).into_iter().map(|part| change(part, patterns));
    let below: Vec<usize> = below.collect::<Result<_, _>>()?;
    match (&mut expression.expr, below.as_slice()) {
        (Expr::Call(call), _) if call.func_name == "matches" => search_once(call, patterns)?,
        (Expr::Comprehension(it), [_, _, condition, step, _]) => {
            take_each_round(it, (condition + step) * STEPS_PER_PART);
        }
        _ => {}
    }
    Ok(1 + below.iter().sum::<usize>())
}

/// Makes each iteration of a macro charge steps.
fn take_each_round(it: &mut ComprehensionExpr, steps: usize) {
    let is_literal = matches!(it.loop_cond.expr, Expr::Literal(_));
    // The interpreter recognizes `map` and `filter` by the form of their step, which must stay: the
    // charge is placed inside it.
    match &mut it.loop_step.expr {
        Expr::Call(step) if is_literal && step.func_name == operators::CONDITIONAL => {
            if let Some(guard) = step.args.first_mut() {
                take_first(guard, steps, no());
            }
        }
        Expr::Call(step) if is_literal && step.func_name == operators::ADD => {
            if let Some(Expr::List(added)) = step.args.get_mut(1).map(|it| &mut it.expr)
                && let Some(item) = added.elements.first_mut()
            {
                take_first(item, steps, LiteralValue::Null);
            }
        }
        _ => take_first(&mut it.loop_cond, steps, no()),
    }
}

/// Returns the children of a node.
pub(super) fn parts(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(it) => {
            vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&*select.operand],
        _ => Vec::new(),
    }
}

/// Returns the children of a node, to be changed.
pub(super) fn parts_of(expression: &mut Expr) -> Vec<&mut IdedExpr> {
    match expression {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(it) => vec![
            &mut it.iter_range, &mut it.accu_init, &mut it.loop_cond, &mut it.loop_step,
            &mut it.result,
        ],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Select(select) => vec![&mut *select.operand],
        _ => Vec::new(),
    }
}

fn no() -> LiteralValue {
    LiteralValue::Boolean(CelBool::from(false))
}

/// Wraps a node so that steps are charged before its evaluation; without remaining steps,
/// `otherwise` replaces it.
fn take_first(part: &mut IdedExpr, steps: usize, otherwise: LiteralValue) {
    let inner = std::mem::take(part);
    let new = |expr| IdedExpr { id: inner.id, expr };
    let first = new(Expr::Ident(format!("@{steps}")));
    let last = new(Expr::Literal(otherwise));
    let func_name = operators::CONDITIONAL.to_owned();
    let call = CallExpr { func_name, target: None, args: vec![first, inner.clone(), last] };
    *part = new(Expr::Call(call));
}

/// Replaces a call of `matches` by a search with a pattern compiled here, once.
fn search_once(call: &mut CallExpr, patterns: &mut Vec<Arc<Regex>>) -> Result<(), Uncountable> {
    let Some(pattern) = call.args.pop() else { return Ok(()) };
    let Expr::Literal(LiteralValue::String(pattern)) = &pattern.expr else {
        return Err(Uncountable::PatternOfData);
    };
    let compiled = regex::RegexBuilder::new(pattern.inner()).size_limit(PATTERN_BYTES_MAX).build();
    let compiled = compiled.map_err(|error| Uncountable::Pattern(error.to_string()))?;
    call.args.extend(call.target.take().map(|target| *target));
    call.func_name = search_name(patterns.len());
    patterns.push(Arc::new(compiled));
    Ok(())
}

#[cfg(test)]
mod tests {
    use cel::Env;

    use super::*;
    use crate::engine::select::Scope;
    use spanscore_base::model::{ToolCall, Trajectory};

    fn counted(text: &str) -> (Arc<Env>, Counted) {
        let environment = Arc::new(Env::stdlib());
        let program = environment.compile(text).unwrap();
        let counted = Counted::new(program.expression());
        (environment, counted.ok().expect(text))
    }

    /// Evaluates an expression over that many tools; returns its value and the steps taken.
    fn evaluate(text: &str, tools: usize, steps: usize) -> (Option<Value>, usize) {
        let call = |at| ToolCall { name: format!("t{at}").into(), ..ToolCall::default() };
        let trajectory =
            Trajectory { tool_calls: (0..tools).map(call).collect(), ..Trajectory::default() };
        let scope = Scope::with_steps(&trajectory, steps);
        let (environment, counted) = counted(text);
        let mut context = Context::with_env(environment);
        context.set_variable_resolver(&scope);
        let value = counted.execute(&mut context, scope.steps_left());
        (value.ok(), steps - scope.steps_left().left())
    }

    #[test]
    fn macros_give_what_they_gave() {
        let check = |text: &str| {
            let (found, _) = evaluate(text, 3, 1_000_000);
            assert_eq!(found, Some(Value::Bool(true)), "{text}");
        };
        check(r#"tool_names.exists(t, t == "t2") && !tool_names.exists(t, t == "t3")"#);
        check(r#"tool_names.all(t, t.startsWith("t"))"#);
        check(r#"tool_names.exists_one(t, t == "t1")"#);
        check(r#"tool_names.filter(t, t != "t1") == ["t0", "t2"]"#);
        check(r#"tool_names.map(t, t + "!") == ["t0!", "t1!", "t2!"]"#);
        check(r#"tool_names.map(t, t != "t1", size(t)) == [2, 2]"#);
        check(r#"tool_names.exists(t, t.matches("^t[2-9]$")) && matches("ab", "b$")"#);
        check(r#"[[1, 2], [3]].map(l, l.filter(x, x > 1)) == [[2], [3]]"#);
        // An error of one item is absorbed by another that decides.
        check(r#"[0, 1].exists(n, 1 / n == 1)"#);
    }

    #[test]
    fn rounds_and_searches_are_counted() {
        let taken = |text: &str, tools| evaluate(text, tools, usize::MAX / 2).1;
        for text in [
            r#"tool_names.all(t, t.matches("^t"))"#,
            r#"tool_names.map(t, t + "!").size() > 0"#,
            r#"tool_names.filter(t, t != "x").size() > 0"#,
            r#"tool_names.exists_one(t, t == "x")"#,
        ] {
            let few = taken(text, 100);
            let many = taken(text, 400);
            assert!(many > 3 * few && many < 5 * few, "{text}: {few}, then {many}");
        }
        let nested = r#"tool_names.all(a, !tool_names.exists(b, b == a + "x"))"#;
        assert!(taken(nested, 400) > 10 * taken(nested, 100));
        let known = r#"tool_names.all(a, a in tool_names)"#;
        assert!(taken(known, 400) > 10 * taken(known, 100) / 4);
    }

    #[test]
    fn what_would_take_more_steps_fails_at_once() {
        for text in [
            r#"tool_names.all(a, !tool_names.exists(b, b == a + "x"))"#,
            r#"tool_names.exists(a, tool_names.filter(b, b == a + "x").size() > 0)"#,
            r#"tool_names.map(a, tool_names.map(b, b)).size() > 0"#,
            r#"!tool_names.all(t, t.matches("^t")) || tool_names.all(t, t.matches("t"))"#,
        ] {
            let (found, taken) = evaluate(text, 1000, 100_000);
            assert_eq!((found, taken), (None, 100_000), "{text}");
        }
    }

    #[test]
    fn patterns_are_texts_of_the_expression() {
        let refused = |text: &str| {
            let program = Env::stdlib().compile(text).unwrap();
            match Counted::new(program.expression()) {
                Err(Uncountable::PatternOfData) => "data",
                Err(Uncountable::Pattern(_)) => "pattern",
                Ok(_) => "",
            }
        };
        assert_eq!(refused(r#"span_name.matches("a+")"#), "");
        assert_eq!(refused(r#"span_name.matches(agent_name)"#), "data");
        assert_eq!(refused(r#"tool_names.exists(t, matches("x", "^" + t))"#), "data");
        assert_eq!(refused(r#"span_name.matches("(a")"#), "pattern");
        assert_eq!(refused(r#"span_name.matches("\\w{1000}{1000}")"#), "pattern");
    }
}
