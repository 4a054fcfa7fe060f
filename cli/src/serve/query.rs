//! Parameters of a request.

use std::borrow::Cow;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Uri};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, RefOr, Required, Schema, Type};

use super::answer::Format;
use super::problem::{self, Problem};

/// The longest name of a tag, in characters.
const LONGEST_TAG: usize = 128;

/// What the description says of a part of an address.
pub fn in_path(name: &str, description: &str, example: &str) -> Parameter {
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .example(Some(example.into()));
    parameter.build()
}

/// What it says of a parameter behind the question mark.
pub fn in_query(
    name: &str,
    required: Required,
    description: &str,
    schema: impl Into<RefOr<Schema>>,
) -> Parameter {
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(required)
        .description(Some(description))
        .schema(Some(schema));
    parameter.build()
}

/// What a caller of `/v1` asks for.
pub struct Wanted {
    pub count: usize,
    pub format: Format,
}

/// The value of a parameter in a query string or a form; the first, if there are several.
pub fn parameter<'a>(text: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut pairs = form_urlencoded::parse(text.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value)
}

impl Wanted {
    /// What the description says of the parameters.
    pub fn described() -> [Parameter; 2] {
        let count = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .default(Some(1.into()));
        let format = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["json", "text"]));
        let limit = "How many ids; at most the limit that --max-count sets.";
        [
            in_query("count", Required::False, limit, count),
            in_query(
                "format",
                Required::False,
                "Precedes the header Accept.",
                format,
            ),
        ]
    }

    /// # Errors
    /// [`BAD_COUNT`](problem::BAD_COUNT), [`BAD_FORMAT`](problem::BAD_FORMAT)
    pub fn of(uri: &Uri, headers: &HeaderMap, max_count: u32) -> Result<Wanted, Problem> {
        let (mut count, mut format) = (None, None);
        let query = uri.query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "count" => count = Some(self::count(&value, max_count)?),
                "format" if value == "json" => format = Some(Format::Json),
                "format" if value == "text" => format = Some(Format::Text),
                "format" => return Err(problem::BAD_FORMAT),
                _ => {}
            }
        }
        Ok(Wanted {
            count: count.unwrap_or(1),
            format: format.unwrap_or_else(|| accepted(headers)),
        })
    }
}

fn count(text: &str, max_count: u32) -> Result<usize, Problem> {
    let count = text
        .parse::<u32>()
        .ok()
        .filter(|count| (1..=max_count).contains(count));
    count.map(|count| count as usize).ok_or(Problem {
        most: Some(max_count),
        ..problem::BAD_COUNT
    })
}

/// Plain text if the caller names it before JSON.
fn accepted(headers: &HeaderMap) -> Format {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let mut types = accepted
        .unwrap_or_default()
        .split(',')
        .map(|kind| kind.split(';').next());
    let named = types.find_map(|kind| match kind?.trim() {
        "text/plain" => Some(Format::Text),
        "application/json" => Some(Format::Json),
        _ => None,
    });
    named.unwrap_or(Format::Json)
}

/// A part of a path, percent-decoded, if that is possible.
pub type InPath = Result<Path<String>, PathRejection>;

/// The tag that a part of a path names.
///
/// # Errors
/// [`BAD_TAG`](problem::BAD_TAG) for what cannot be a name.
pub fn tag(part: InPath) -> Result<String, Problem> {
    let Path(name) = part.map_err(|_| problem::BAD_TAG)?;
    checked_tag(name.into()).map(Cow::into_owned)
}

/// # Errors
/// [`BAD_TAG`](problem::BAD_TAG) for what cannot be a name.
pub fn checked_tag(name: Cow<'_, str>) -> Result<Cow<'_, str>, Problem> {
    let fits = name.len() <= LONGEST_TAG || name.chars().count() <= LONGEST_TAG;
    match fits && !name.is_empty() && !name.contains('\0') {
        true => Ok(name),
        false => Err(problem::BAD_TAG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn wanted(query: &str, accept: &'static str) -> Result<(usize, Format), Problem> {
        let uri = format!("/v1/segment/orders{query}")
            .parse()
            .expect("an address");
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        Wanted::of(&uri, &headers, 100).map(|wanted| (wanted.count, wanted.format))
    }

    #[test]
    fn count_is_one_unless_it_is_given_and_bounded() {
        assert_eq!(wanted("", "*/*"), Ok((1, Format::Json)));
        assert_eq!(wanted("?count=100", "*/*"), Ok((100, Format::Json)));
        for bad in ["", "0", "-1", "101", "1.5", "x", "99999999999999999999"] {
            let refused = wanted(&format!("?count={bad}"), "*/*").expect_err(bad);
            assert_eq!((refused.code, refused.most), ("bad_count", Some(100)));
        }
    }

    #[test]
    fn format_follows_the_parameter_before_the_header() {
        assert_eq!(wanted("", "text/plain"), Ok((1, Format::Text)));
        assert_eq!(
            wanted("", "text/html, text/plain;q=0.9, */*"),
            Ok((1, Format::Text))
        );
        assert_eq!(
            wanted("", "application/json, text/plain"),
            Ok((1, Format::Json))
        );
        assert_eq!(wanted("?format=json", "text/plain"), Ok((1, Format::Json)));
        assert_eq!(
            wanted("?format=xml", "text/plain"),
            Err(problem::BAD_FORMAT)
        );
    }

    #[test]
    fn names_are_bounded_in_characters() {
        let tag = |name: &str| tag(Ok(Path(name.to_owned())));
        for good in ["a/b c", &"ä".repeat(128)] {
            assert_eq!(tag(good).as_deref(), Ok(good));
        }
        for bad in ["", "a\0b", &"a".repeat(129)] {
            assert_eq!(tag(bad), Err(problem::BAD_TAG), "{bad}");
        }
    }
}
