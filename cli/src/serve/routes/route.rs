//! An address: what answers there, and what the description says of it.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::header::ALLOW;
use axum::routing::{self, MethodRouter};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::path::{Operation, OperationBuilder, Parameter};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{
    Content, ContentBuilder, HttpMethod, ObjectBuilder, PathItem, Ref, RefOr, Required,
    ResponseBuilder, Schema, Type,
};

use crate::serve::app::App;
use crate::serve::problem;

pub struct Route {
    pub path: &'static str,
    pub methods: MethodRouter<Arc<App>>,
    /// Whether the parameters may be in a form.
    pub takes_form: bool,
    /// Whether pages of other sites may make a browser ask: no id is drawn.
    pub takes_pages: bool,
    /// The schemas to which its description refers, by name.
    pub schemas: Vec<(String, RefOr<Schema>)>,
    method: HttpMethod,
    /// What a request does; with a form, that is GET.
    operation: Operation,
}

impl Route {
    /// The handler answers GET and HEAD.
    pub fn get<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, handler: H) -> Route {
        let problem = Ref::from_response_name("Problem");
        Route {
            path,
            methods: routing::get(handler),
            takes_form: false,
            takes_pages: false,
            schemas: Vec::new(),
            method: HttpMethod::Get,
            operation: OperationBuilder::new().response("default", problem).build(),
        }
    }

    /// The handler answers POST, and nothing else does.
    pub fn post<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, handler: H) -> Route {
        let mut route = Route::get(path, || async { problem::METHOD });
        route.methods = routing::post(handler);
        route.method = HttpMethod::Post;
        route
    }

    /// The handler answers POST, too, whose parameters may be in a form.
    pub fn get_or_post<H: Handler<T, Arc<App>>, T: 'static>(
        path: &'static str,
        handler: H,
    ) -> Route {
        let mut route = Route::get(path, handler.clone());
        route.methods = route.methods.post(handler);
        route.takes_form = true;
        route
    }

    /// Refuses HEAD.
    pub fn no_head(mut self) -> Route {
        let refuse = || async { ([(ALLOW, "GET")], problem::METHOD) };
        self.methods = self.methods.head(refuse);
        self
    }

    /// Its unique name, the group in which it is listed, and what it is for.
    pub fn is(mut self, id: &str, group: &str, summary: &str) -> Route {
        self.operation.operation_id = Some(id.to_owned());
        self.operation.tags = Some(vec![group.to_owned()]);
        self.operation.summary = Some(summary.to_owned());
        self
    }

    /// Answers pages of other sites, too.
    pub fn takes_pages(mut self) -> Route {
        self.takes_pages = true;
        self
    }

    /// No token is needed, so that no answer is a problem of the caller.
    pub fn open(self) -> Route {
        let mut route = self.takes_pages();
        route.operation.security = Some(Vec::new());
        route.operation.responses.responses.remove("default");
        route
    }

    pub fn takes(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Route {
        let taken = self.operation.parameters.get_or_insert_default();
        taken.extend(parameters.into_iter().map(RefOr::T));
        self
    }

    pub fn answers<const N: usize>(
        mut self,
        status: u16,
        description: &str,
        bodies: [Body; N],
    ) -> Route {
        let mut response = ResponseBuilder::new().description(description);
        for body in bodies {
            response = response.content(body.kind, body.content);
            self.schemas.extend(body.schema);
        }
        let responses = &mut self.operation.responses.responses;
        responses.insert(status.to_string(), response.into());
        self
    }

    /// What the description says.
    pub fn described(&self) -> PathItem {
        let mut item = PathItem::new(self.method.clone(), self.operation.clone());
        if self.takes_form {
            item.post = Some(self.posted());
        }
        item
    }

    /// What POST does.
    fn posted(&self) -> Operation {
        let mut operation = self.operation.clone();
        operation.operation_id = operation.operation_id.map(|id| id + "Post");
        let mut form = ObjectBuilder::new().schema_type(Type::Object);
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter
                && let Some(schema) = &parameter.schema
            {
                form = form.property(&parameter.name, schema.clone());
                parameter.required = Required::False;
            }
        }
        let body = RequestBodyBuilder::new()
            .content(
                "application/x-www-form-urlencoded",
                Content::new(Some(form)),
            )
            .required(Some(Required::False));
        operation.request_body = Some(RefOr::T(body.build()));
        operation
    }
}

/// What an answer has in it.
pub struct Body {
    kind: &'static str,
    content: Content,
    schema: Option<(String, RefOr<Schema>)>,
}

pub fn json<T: ToSchema>() -> Body {
    let name = T::name();
    Body {
        kind: "application/json",
        content: Content::new(Some(Ref::from_schema_name(name.clone()))),
        schema: Some((name.into_owned(), T::schema())),
    }
}

/// Any JSON object.
pub fn object() -> Body {
    of_type("application/json", Type::Object, None)
}

/// Plain text, as in this example.
pub fn text(example: &str) -> Body {
    of_type("text/plain", Type::String, Some(example.into()))
}

pub fn html() -> Body {
    of_type("text/html", Type::String, None)
}

fn of_type(kind: &'static str, schema: Type, example: Option<Value>) -> Body {
    let content = ContentBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(schema)))
        .example(example);
    Body {
        kind,
        content: content.build(),
        schema: None,
    }
}
