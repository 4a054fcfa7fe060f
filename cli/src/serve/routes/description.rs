//! `/openapi.json`: the addresses as OpenAPI describes them, made of the table of routes.

use utoipa::ToSchema;
use utoipa::openapi::info::{InfoBuilder, LicenseBuilder};
use utoipa::openapi::path::PathsBuilder;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, Content, HeaderBuilder, ObjectBuilder, OpenApiBuilder, Ref, RefOr, Response,
    ResponseBuilder, SecurityRequirement, Server, Type,
};

use super::route::Route;
use crate::serve::problem::{self, Body};

/// The groups in which addresses are listed.
pub const IDS: &str = "ids";
pub const STATE: &str = "state";
pub const MEITUAN: &str = "Meituan Leaf";
pub const TINYID: &str = "TinyID";

const GROUPS: [(&str, Option<&str>); 4] = [
    (IDS, None),
    (STATE, None),
    (MEITUAN, Some("As Meituan Leaf answers.")),
    (
        TINYID,
        Some(
            "As TinyID answers: with status 200, and errors as a code in the JSON or as an empty \
             text.",
        ),
    ),
];

const ABOUT: &str = "Unique 64-bit ids over HTTP, from buffers in memory. Ids are strings in JSON, \
                     because many programs round large numbers; at the addresses of TinyID they \
                     are numbers, as TinyID answers them.";

/// The name of the way in which a token is sent.
const TOKEN: &str = "token";

/// The description of these routes, in JSON.
pub fn of(routes: Vec<Route>) -> String {
    let license = LicenseBuilder::new()
        .name("PostgreSQL")
        .identifier(Some("PostgreSQL"));
    let info = InfoBuilder::new()
        .title("leafctl serve")
        .version("1")
        .description(Some(ABOUT))
        .license(Some(license.build()));
    let groups = GROUPS.map(|(name, description)| {
        let group = TagBuilder::new().name(name).description(description);
        group.build()
    });
    let mut components = ComponentsBuilder::new()
        .security_scheme(
            TOKEN,
            SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)),
        )
        .schema_from::<Body>()
        .response("Problem", RefOr::T(problems()));
    let mut paths = PathsBuilder::new();
    for route in routes {
        paths = paths.path(route.path, route.described());
        components = components.schemas_from_iter(route.schemas);
    }
    let token = SecurityRequirement::new(TOKEN, [""; 0]);
    let description = OpenApiBuilder::new()
        .info(info)
        .servers(Some([Server::new("/")]))
        .security(Some([token, SecurityRequirement::default()]))
        .tags(Some(groups))
        .paths(paths)
        .components(Some(components.build()));
    let description = serde_json::to_string_pretty(&description.build());
    description.unwrap_or_default() + "\n"
}

/// The answers other than those that a route names.
fn problems() -> Response {
    let mut all = problem::ALL.to_vec();
    all.sort_by_key(|problem| problem.status);
    let each = all.iter().map(|problem| {
        let (code, message) = (problem.code, problem.message);
        format!("\n- {}, `{code}`: {message}", problem.status)
    });
    let retry_after = HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(Type::Integer)))
        .description(Some(
            "With 429 and 503: after how many seconds to ask again.",
        ));
    let body = Content::new(Some(Ref::from_schema_name(Body::name())));
    ResponseBuilder::new()
        .description("Why there are no ids:\n".to_owned() + &each.collect::<String>())
        .header("Retry-After", retry_after.build())
        .content("application/json", body)
        .build()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::serve::routes::table;

    #[test]
    fn schemas_of_one_name_are_the_same() {
        let mut known = HashMap::new();
        for (name, schema) in table().into_iter().flat_map(|route| route.schemas) {
            let first = known.entry(name.clone()).or_insert(schema.clone());
            assert!(*first == schema, "{name} is two schemas");
        }
    }
}
