//! Parameters of a request: one filter for all routes, and further parameters of each route.

use std::hash::{DefaultHasher, Hash, Hasher};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use strum::VariantNames;

use spanscore_store::query::{PagePlace, RunOrder, StoreField, StoreFilter, point_in_time};

use crate::problem::ApiProblem;

/// Limit on the rows of a page.
pub(crate) const LIMIT_MAX: usize = 500;
/// Default rows of a page.
const LIMIT_DEFAULT: usize = 50;
/// Limit on the values of all parameters.
pub(crate) const VALUES_MAX: usize = 100;

/// Parameters of the filter beside its fields.
const BOUNDS: [&str; 6] = ["from", "to", "score_gte", "score_lt", "text", "revisions"];
/// Names and values of parameters, in the order of the request.
pub(crate) type Pairs = Vec<(String, String)>;

/// Parameters of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takes {
    /// True if it takes the filter.
    pub(crate) filter: bool,
    /// Other parameters, by name.
    pub(crate) others: &'static [&'static str],
    /// Limit on the fields of `group_by`.
    pub(crate) groups_max: usize,
}

/// Parsed query.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApiQuery {
    pub(crate) filter: StoreFilter,
    pub(crate) limit: usize,
    pub(crate) after: Option<PagePlace>,
    pub(crate) order: RunOrder,
    pub(crate) group_by: Vec<StoreField>,
    /// Parameters of the filter, as given.
    pub(crate) filter_pairs: Pairs,
    /// Parameters parsed by the route.
    others: Pairs,
    /// Variable parts of the path.
    pub(crate) path: Vec<String>,
    pub(crate) now_ms: i64,
    /// Digest of the parameters that a cursor depends on.
    digest: u64,
}

impl ApiQuery {
    /// Reads the parameters of a route.
    pub(crate) fn read(query: &str, takes: Takes, now_ms: i64) -> Result<Self, ApiProblem> {
        let pairs = pairs(query);
        Self::of_pairs(&pairs, takes, now_ms)
    }

    pub(crate) fn of_pairs(
        pairs: &[(String, String)],
        takes: Takes,
        now_ms: i64,
    ) -> Result<Self, ApiProblem> {
        if pairs.len() > VALUES_MAX {
            let text = format!("{} parameters: at most {VALUES_MAX} are read", pairs.len());
            return Err(ApiProblem::new(StatusCode::BAD_REQUEST, "bad_value", text));
        }
        let digest = digest(pairs);
        let mut question = Self { limit: LIMIT_DEFAULT, now_ms, digest, ..Self::default() };
        for (name, value) in pairs {
            question.take(name, value, takes)?;
        }
        Ok(question)
    }

    fn take(&mut self, name: &str, value: &str, takes: Takes) -> Result<(), ApiProblem> {
        let field = fields().find(|field| field.as_str() == name);
        if takes.filter && (field.is_some() || BOUNDS.contains(&name)) {
            self.filter_pairs.push((name.to_owned(), value.to_owned()));
            let Some(field) = field else { return self.bound(name, value) };
            self.filter.ask(field, value)?;
            return Ok(());
        }
        if !takes.others.contains(&name) {
            return Err(ApiProblem::parameter(name, &takes.names()));
        }
        match name {
            "limit" => self.limit = limit(value)?,
            "cursor" => self.after = Some(self.place(value)?),
            "sort" => {
                let unknown = |_| ApiProblem::word("sort", value, RunOrder::VARIANTS);
                self.order = value.parse().map_err(unknown)?;
            }
            "group_by" => self.group_by = group_by(value, takes.groups_max)?,
            _ => self.others.push((name.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    fn bound(&mut self, name: &str, value: &str) -> Result<(), ApiProblem> {
        let time = || {
            let time = point_in_time(value, self.now_ms);
            time.map(Some).map_err(|error| ApiProblem::value(name, error.to_string()))
        };
        let number = || match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(ApiProblem::value(name, format!("`{value}` is no number"))),
        };
        match name {
            "from" => self.filter.from_ms = time()?,
            "to" => self.filter.to_ms = time()?,
            "score_gte" => self.filter.score_gte = number()?,
            "score_lt" => self.filter.score_lt = number()?,
            "text" => self.filter.ask_text(value)?,
            _ => match value {
                "current" => self.filter.with_superseded = false,
                "all" => self.filter.with_superseded = true,
                _ => return Err(ApiProblem::word(name, value, &["current", "all"])),
            },
        }
        Ok(())
    }

    /// Returns the first name in the path; empty without one.
    pub(crate) fn named(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    /// Returns the cursor of a place.
    pub(crate) fn cursor(&self, place: PagePlace) -> String {
        let mut bytes = Vec::new();
        bytes.extend(place.rank.to_bits().to_be_bytes());
        bytes.extend(place.seq.to_be_bytes());
        bytes.extend(self.digest.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn place(&self, cursor: &str) -> Result<PagePlace, ApiProblem> {
        let bad = |text: &str| ApiProblem::new(StatusCode::BAD_REQUEST, "bad_cursor", text);
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
        let bytes = bytes.and_then(|bytes| <[u8; 24]>::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| bad("no such cursor: take `next` of the page before"))?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(word)
        };
        if word(16) != self.digest {
            return Err(bad("the cursor is of another filter or order: begin without one"));
        }
        Ok(PagePlace { rank: f64::from_bits(word(0)), seq: word(8).cast_signed() })
    }

    /// Returns the value of a parameter parsed by the route.
    pub(crate) fn other(&self, name: &str) -> Option<&str> {
        let found = self.others.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Takes {
    /// Returns the names of all parameters.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let filter = fields().map(|field| field.as_str()).chain(BOUNDS);
        filter.filter(|_| self.filter).chain(self.others.iter().copied()).collect()
    }
}

/// Returns the fields for filters: all but those only for groups.
fn fields() -> impl Iterator<Item = StoreField> {
    let groups_only = [StoreField::Day, StoreField::Hour];
    StoreField::all().filter(move |field| !groups_only.contains(field))
}

/// Reads the pairs of a query string.
pub(crate) fn pairs(query: &str) -> Pairs {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn limit(value: &str) -> Result<usize, ApiProblem> {
    match value.parse::<usize>() {
        Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => Ok(limit),
        _ => {
            let text = format!("`limit` cannot be `{value}`: 1 to {LIMIT_MAX}");
            Err(ApiProblem::value("limit", text))
        }
    }
}

fn group_by(value: &str, most: usize) -> Result<Vec<StoreField>, ApiProblem> {
    let fields = value.split(',').map(str::trim).filter(|word| !word.is_empty());
    let fields: Vec<_> =
        fields.map(StoreField::from_word).collect::<Result<_, _>>().map_err(ApiProblem::from)?;
    if fields.len() > most {
        let text = format!("`group_by` names {} fields: at most {most} here", fields.len());
        return Err(ApiProblem::value("group_by", text));
    }
    Ok(fields)
}

fn digest(pairs: &[(String, String)]) -> u64 {
    let mut bound: Vec<_> =
        pairs.iter().filter(|(name, _)| name != "cursor" && name != "limit").collect();
    bound.sort();
    let mut hasher = DefaultHasher::new();
    bound.hash(&mut hasher);
    hasher.finish()
}
