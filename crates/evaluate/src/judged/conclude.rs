//! Tally of votes: majority answers, then a score.

use super::question::{QuestionItem, Scoring, TopicMode};
use crate::inquiry::{AnsweredItem, JudgeAnswer, JudgeAnswers};
use crate::shared::report::total;
use spanscore_base::model::{Outcome, Reason};
use spanscore_base::tally;

/// Answer to one statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answered {
    /// Answer of the majority or of code.
    pub(super) answer: JudgeAnswer,
    /// True if code answered, without a judge.
    pub(super) by_code: bool,
    /// A vote for that answer.
    pub(super) item: Option<AnsweredItem>,
    /// All votes in order.
    pub(super) votes: Vec<JudgeAnswer>,
}

/// Tallies votes by statement; also returns the mean share of the majorities.
pub(super) fn tally(items: &[QuestionItem], votes: &[JudgeAnswers]) -> (Vec<Answered>, f64) {
    let mut asked = 0;
    let mut shares = 0.0;
    let answered = items.iter().map(|item| {
        if let Some(answer) = item.settled {
            return Answered { answer, by_code: true, item: None, votes: Vec::new() };
        }
        let all: Vec<&AnsweredItem> =
            votes.iter().filter_map(|vote| vote.items.get(asked)).collect();
        asked += 1;
        let (answer, share) = majority(all.iter().map(|item| item.answer));
        shares += share;
        let item = all.iter().find(|item| item.answer == answer).or(all.first());
        let votes = all.iter().map(|item| item.answer).collect();
        Answered { answer, by_code: false, item: item.map(|item| (*item).clone()), votes }
    });
    let answered = answered.collect();
    (answered, if asked == 0 { 1.0 } else { shares / asked as f64 })
}

/// Returns the most frequent answer and its share; a tie is unclear.
fn majority(votes: impl Iterator<Item = JudgeAnswer>) -> (JudgeAnswer, f64) {
    let counts = tally::tally(votes);
    let most = counts.values().copied().max().unwrap_or(0);
    let share = most as f64 / counts.values().sum::<usize>().max(1) as f64;
    let mut winners = counts.into_iter().filter(|(_, count)| *count == most);
    match (winners.next(), winners.next()) {
        (Some((answer, _)), None) => (answer, share),
        _ => (JudgeAnswer::Unclear, share),
    }
}

/// Returns the weighted answers, reversed for an inverted statement.
fn counted(items: &[QuestionItem], answered: &[Answered]) -> Vec<(f64, JudgeAnswer)> {
    let counted = items.iter().zip(answered).map(|(item, answered)| {
        let answer = match answered.answer {
            JudgeAnswer::Yes if item.inverted => JudgeAnswer::No,
            JudgeAnswer::No if item.inverted => JudgeAnswer::Yes,
            answer => answer,
        };
        (item.weight, answer)
    });
    counted.collect()
}

/// Returns the score of answers.
///
/// # Errors
/// Returns the reason for a missing score.
pub(super) fn score(
    scoring: Scoring,
    items: &[QuestionItem],
    answered: &[Answered],
) -> Result<f64, Outcome> {
    let counted = counted(items, answered);
    if scoring != Scoring::Preference {
        enough(&counted)?;
    }
    match scoring {
        Scoring::Preference => preference(&counted),
        Scoring::Share | Scoring::Given => share(&counted),
        Scoring::Ranked => Ok(average_precision(&counted)),
        Scoring::MeanOfGroups { size } => {
            let groups = counted.chunks(size.max(1)).filter_map(|group| share(group).ok());
            let scores: Vec<f64> = groups.collect();
            Ok(total(scores.iter().copied()) / scores.len().max(1) as f64)
        }
        Scoring::Topics(mode) => topics(mode, &counted),
    }
}

/// Checks that statements apply, and that fewer than half of them are unclear.
///
/// # Errors
/// Returns the reason for a missing score.
fn enough(counted: &[(f64, JudgeAnswer)]) -> Result<(), Outcome> {
    let unclear = counted.iter().filter(|(_, answer)| *answer == JudgeAnswer::Unclear).count();
    let apply = counted.iter().filter(|(_, answer)| *answer != JudgeAnswer::NotApplicable).count();
    if apply == 0 {
        return Err(no_score(Reason::NothingToJudge, "nothing that is asked arises in this run"));
    }
    if unclear * 2 >= apply {
        let words = format!("{unclear} of the {apply} statements that apply are unclear");
        return Err(no_score(Reason::JudgeUnsure, words));
    }
    Ok(())
}

fn share(counted: &[(f64, JudgeAnswer)]) -> Result<f64, Outcome> {
    let weight = |wanted: JudgeAnswer| {
        total(counted.iter().filter(|(_, answer)| *answer == wanted).map(|(weight, _)| *weight))
    };
    let yes = weight(JudgeAnswer::Yes);
    let no = weight(JudgeAnswer::No);
    if yes + no > 0.0 {
        Ok(yes / (yes + no))
    } else {
        Err(no_score(Reason::NothingToJudge, "nothing that counts was answered yes or no"))
    }
}

/// Returns the mean over both orders: 1 for each with the answer preferred, half for a tie.
fn preference(counted: &[(f64, JudgeAnswer)]) -> Result<f64, Outcome> {
    let points = counted.iter().map(|(_, answer)| match answer {
        JudgeAnswer::Yes => Some(1.0),
        JudgeAnswer::No => Some(0.0),
        JudgeAnswer::NotApplicable => Some(0.5),
        JudgeAnswer::Unclear => None,
    });
    let points: Option<Vec<f64>> = points.collect();
    let points = points.filter(|points| !points.is_empty()).ok_or_else(|| {
        no_score(Reason::JudgeUnsure, "the judge cannot tell which of the answers is better")
    })?;
    Ok(total(points.iter().copied()) / points.len() as f64)
}

/// Describes a preference; `decided` is the number of `orders` without a tie.
pub(super) fn preferred(better: usize, decided: usize, orders: usize) -> String {
    let mut words = format!("better in {better} of {orders} orders");
    for (word, count) in [("equal", orders - decided), ("worse", decided - better)] {
        if count > 0 {
            words.push_str(&format!(", {word} in {count}"));
        }
    }
    words
}

/// Returns the average precision: the mean, over ranks with a true statement, of the share of true
/// ones up to there; 0 without any. Inapplicable and unclear statements have no rank.
fn average_precision(counted: &[(f64, JudgeAnswer)]) -> f64 {
    let decided = counted.iter().filter_map(|(_, answer)| match answer {
        JudgeAnswer::Yes => Some(true),
        JudgeAnswer::No => Some(false),
        JudgeAnswer::Unclear | JudgeAnswer::NotApplicable => None,
    });
    let mut held = 0.0;
    let mut sum = 0.0;
    for (rank, holds) in (1_u32..).zip(decided) {
        if holds {
            held += 1.0;
            sum += held / f64::from(rank);
        }
    }
    if held > 0.0 { sum / held } else { 0.0 }
}

/// Returns the metric over pairs of (within the topics, answered), without pairs with an answer
/// other than yes or no.
fn topics(mode: TopicMode, counted: &[(f64, JudgeAnswer)]) -> Result<f64, Outcome> {
    let mut both = 0.0;
    let mut answered_out = 0.0;
    let mut declined_in = 0.0;
    let mut declined_out = 0.0;
    for pair in counted.chunks_exact(2) {
        match (pair[0].1, pair[1].1) {
            (JudgeAnswer::Yes, JudgeAnswer::Yes) => both += 1.0,
            (JudgeAnswer::No, JudgeAnswer::Yes) => answered_out += 1.0,
            (JudgeAnswer::Yes, JudgeAnswer::No) => declined_in += 1.0,
            (JudgeAnswer::No, JudgeAnswer::No) => declined_out += 1.0,
            _ => {}
        }
    }
    let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    let precision = ratio(both, both + answered_out);
    let recall = ratio(both, both + declined_in);
    let value = match mode {
        TopicMode::Accuracy => {
            ratio(both + declined_out, both + declined_out + answered_out + declined_in)
        }
        TopicMode::Precision => precision,
        TopicMode::Recall => recall,
        TopicMode::F1 => ratio(2.0 * both, 2.0 * both + answered_out + declined_in),
    };
    value.ok_or_else(|| no_score(Reason::NothingToJudge, "no turn counts for this figure"))
}

/// Returns the mean of the scores in the replies, and the share of the most frequent one.
pub(super) fn given(votes: &[JudgeAnswers]) -> Option<(f64, f64)> {
    let scores: Vec<f64> = votes.iter().filter_map(|vote| vote.score).collect();
    let most =
        scores.iter().map(|score| scores.iter().filter(|other| *other == score).count()).max()?;
    let count = scores.len() as f64;
    Some((total(scores.iter().copied()) / count, most as f64 / count))
}

/// Returns an outcome without a score, with its reason.
pub(crate) fn no_score(reason: Reason, words: impl Into<String>) -> Outcome {
    Outcome::NotEvaluable { reason, explanation: words.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Vec<JudgeAnswer> {
        let answer = |c: char| match c {
            'y' => JudgeAnswer::Yes,
            'n' => JudgeAnswer::No,
            'u' => JudgeAnswer::Unclear,
            _ => JudgeAnswer::NotApplicable,
        };
        words.chars().map(answer).collect()
    }

    fn vote(words: &str) -> JudgeAnswers {
        let item = |answer| AnsweredItem {
            answer,
            cites: Vec::new(),
            reason: String::new(),
            overturned: None,
        };
        JudgeAnswers { items: read(words).into_iter().map(item).collect(), ..Default::default() }
    }

    fn check(scoring: Scoring, weights: &[f64], votes: &[&str], expected: &str) {
        let item = |weight: &f64| QuestionItem { weight: *weight, ..QuestionItem::new("s") };
        let items: Vec<_> = weights.iter().map(item).collect();
        let votes: Vec<_> = votes.iter().map(|words| vote(words)).collect();
        let (answered, agreement) = tally(&items, &votes);
        let words: String = answered.iter().map(|one| &one.answer.as_str()[..1]).collect();
        let found = match score(scoring, &items, &answered) {
            Ok(score) => format!("{words} {agreement:.2} {score:.2}"),
            Err(Outcome::NotEvaluable { reason, .. }) => {
                format!("{words} {agreement:.2} {}", reason.as_str())
            }
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn votes_are_counted_statement_by_statement() {
        let ones = [1.0; 3];
        check(Scoring::Share, &ones, &["yyn"], "yyn 1.00 0.67");
        check(Scoring::Share, &ones, &["yyn", "ynn", "yyy"], "yyn 0.78 0.67");
        check(Scoring::Share, &ones, &["yyn", "yny"], "yuu 0.67 judge_unsure");
        check(Scoring::Share, &ones, &["-y-"], "nyn 1.00 1.00");
        check(Scoring::Share, &ones, &["---"], "nnn 1.00 nothing_to_judge");
        check(Scoring::Share, &ones, &["yu-"], "yun 1.00 judge_unsure");
        check(Scoring::Share, &ones, &["yyu"], "yyu 1.00 1.00");
        check(Scoring::Share, &[3.0, 1.0, 1.0], &["ynn"], "ynn 1.00 0.60");
    }

    #[test]
    fn a_preference_counts_where_it_holds_in_either_order() {
        let check = |vote: &str, expected: &str| {
            let item = |inverted| QuestionItem { inverted, ..QuestionItem::new("s") };
            let items = [item(false), item(true)];
            let (answered, _) = tally(&items, &[super::tests::vote(vote)]);
            let found = score(Scoring::Preference, &items, &answered);
            let found = found.map_or_else(|_| "none".to_owned(), |score| score.to_string());
            assert_eq!(found, expected, "{vote}");
        };
        check("yn", "1");
        check("ny", "0");
        check("yy", "0.5");
        check("nn", "0.5");
        check("y-", "0.75");
        check("--", "0.5");
        check("yu", "none");
    }

    #[test]
    fn ranks_count_by_the_precision_up_to_them() {
        let five = [1.0; 5];
        check(Scoring::Ranked, &five, &["ynynn"], "ynynn 1.00 0.83");
        check(Scoring::Ranked, &five, &["nnnny"], "nnnny 1.00 0.20");
        check(Scoring::Ranked, &five, &["nnnnn"], "nnnnn 1.00 0.00");
        check(Scoring::Ranked, &five, &["-yyyy"], "nyyyy 1.00 1.00");
    }

    /// Pins the sign: scores are compared as text, in which a negative zero would differ.
    #[test]
    fn a_score_of_zero_has_no_sign() {
        check(Scoring::Share, &[1.0], &["n"], "n 1.00 0.00");
        check(Scoring::Share, &[1.0; 2], &["n-"], "nn 1.00 0.00");
        check(Scoring::MeanOfGroups { size: 1 }, &[1.0; 2], &["nn"], "nn 1.00 0.00");
        check(Scoring::Topics(TopicMode::Recall), &[1.0; 2], &["yn"], "yn 1.00 0.00");
    }

    #[test]
    fn topics_give_the_figure_that_is_asked_for() {
        let eight = [1.0; 8];
        let votes = &["yyyynyyn"];
        let check = |mode, expected| {
            check(Scoring::Topics(mode), &eight, votes, &format!("yyyynyyn 1.00 {expected}"));
        };
        check(TopicMode::Accuracy, "0.50");
        check(TopicMode::Precision, "0.67");
        check(TopicMode::Recall, "0.67");
        check(TopicMode::F1, "0.67");
    }

    #[test]
    fn tools_count_alike_however_many_of_their_checks_apply() {
        let scoring = Scoring::MeanOfGroups { size: 2 };
        check(scoring, &[1.0; 4], &["yny-"], "ynyn 1.00 0.75");
    }
}
