//! JSON Lines: one case per line, with the turns of a conversation if there are several.

use super::super::expect::ExpectSettings;
use super::{
    CaseTurn, Mistake, NamedCase, ROWS_MAX, Row, at_path, criteria_or_none, name_at, push,
};
use spanscore_base::value::{Map, Value, json};
use spanscore_base::visible;
use spanscore_evaluate::Kind;
use spanscore_evaluate::engine::expect::case::takes_turns;

/// Reads a case from each non-empty line.
pub(super) fn rows(
    text: &str,
    settings: &ExpectSettings,
    kind: &Kind,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Row> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let mut rows = Vec::new();
    for (line, number) in lines.take(ROWS_MAX + 1) {
        let read = json::parse(line).map_err(|error| error.to_string());
        push(read.and_then(|row| case(&row, settings, kind)), Some(number), &mut rows, mistakes);
    }
    rows
}

/// Returns true for a case in the form of these rows.
pub(super) fn is_row(case: Option<&Value<'_>>, settings: &ExpectSettings) -> bool {
    case.is_some_and(|case| at_path(case, &settings.id_field).is_some())
}

/// Reads the cases of a list.
pub(super) fn rows_of_list(
    cases: &[Value<'_>],
    settings: &ExpectSettings,
    kind: &Kind,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for row in cases.iter().take(ROWS_MAX + 1) {
        push(case(row, settings, kind), None, &mut rows, mistakes);
    }
    rows
}

/// Reads a case and its overall criteria.
fn case(
    row: &Value<'_>,
    settings: &ExpectSettings,
    kind: &Kind,
) -> Result<(NamedCase, Option<Value<'static>>), String> {
    let names = vec![name_at(row, &settings.id_field)?];
    let criteria = at_path(row, &settings.criteria_field);
    // A row with criteria may have another list of that name.
    let is_of_turns = |list: &&[Value<'_>]| {
        criteria.is_none() || list.iter().all(|turn| words(turn, settings).is_some())
    };
    let turns = at_path(row, &settings.turns_field);
    if criteria.is_none() && turns.is_some_and(|turns| turns.as_list().is_none()) {
        return Err(format!("`{}` must be a list", settings.turns_field));
    }
    let turns = turns.and_then(Value::as_list).filter(is_of_turns).unwrap_or_default();
    let read = |(number, turn)| case_turn(turn, number, settings);
    let turns = (1..).zip(turns).map(read).collect::<Result<Vec<_>, _>>()?;
    let said = words(row, settings).or_else(|| turns.first().map(|turn| turn.user_input.clone()));
    let criteria = match criteria {
        Some(found) => criteria_or_none(found)?,
        None if turns.is_empty() => return Err(no_criteria(row, settings)),
        None => turn_by_turn(&turns, kind),
    };
    Ok((NamedCase { names, user_input: said, turns }, criteria))
}

/// Names the entry of a row that may be meant as its criteria.
fn no_criteria(row: &Value<'_>, settings: &ExpectSettings) -> String {
    let field = &settings.criteria_field;
    let known = [&settings.id_field, &settings.input_field, &settings.turns_field];
    let may_be = |key: &str, value: &Value<'_>| {
        let holds = value.as_list().is_some() || value.as_map().is_some();
        holds && known.iter().all(|own| *own != key)
    };
    let meant = row.as_map().and_then(|map| map.iter().find(|(key, value)| may_be(key, value)));
    let help = meant.map_or_else(String::new, |(key, _)| {
        let key = visible::line(key);
        format!(": write what it expects there, `\"{field}\": {{\"{key}\": ...}}`")
    });
    format!("the case has no `{field}`{help}")
}

fn words(of: &Value<'_>, settings: &ExpectSettings) -> Option<String> {
    at_path(of, &settings.input_field).and_then(Value::as_str).map(str::to_owned)
}

fn case_turn(
    turn: &Value<'_>,
    number: usize,
    settings: &ExpectSettings,
) -> Result<CaseTurn, String> {
    let lacks = || format!("turn {number} has no `{}`", settings.input_field);
    let user_input = words(turn, settings).ok_or_else(lacks)?;
    let found = at_path(turn, &settings.criteria_field).map(criteria_or_none);
    let criteria = found.transpose().map_err(|what| format!("turn {number}: {what}"))?.flatten();
    Ok(CaseTurn { number, user_input, criteria })
}

/// Returns criteria of a whole conversation, for kinds that compare turn by turn; `None` if a turn
/// expects nothing, or something other than calls.
fn turn_by_turn(turns: &[CaseTurn], kind: &Kind) -> Option<Value<'static>> {
    let calls = |turn: &CaseTurn| {
        let expected = turn.criteria.as_ref()?.as_map().filter(|only| only.len() == 1)?;
        expected.get("tool_calls").cloned()
    };
    let calls =
        turns.iter().filter(|_| takes_turns(kind)).map(calls).collect::<Option<Vec<_>>>()?;
    let calls = Some(calls).filter(|calls| !calls.is_empty())?;
    Some(Value::Map(Map::from([("turns", Value::List(calls))])))
}
