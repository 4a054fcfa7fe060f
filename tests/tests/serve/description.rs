//! `/openapi.json`: a valid description, of addresses that answer as it says.

use std::collections::HashSet;

use leaf_tests::{Serve, Server};

#[test]
fn every_described_address_answers_as_described() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &[]);
    let text = serve.get("/openapi.json").body;
    oas3::from_json(&text).expect("a valid description");
    let description: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    // What it refers to is there.
    for reference in text
        .split("\"$ref\": \"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
    {
        assert!(description.pointer(reference).is_some(), "{reference}");
    }
    let mut names = HashSet::new();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let name = operation["operationId"].as_str().expect("a name");
            assert!(names.insert(name), "{name} is two operations");
            let none = Vec::new();
            let parameters = operation["parameters"].as_array().unwrap_or(&none);
            let mut address = path.clone();
            let mut query = Vec::new();
            for parameter in parameters {
                match (parameter["in"].as_str(), parameter["name"].as_str()) {
                    (Some("path"), Some(name)) => {
                        let example = parameter["example"].as_str().expect("an example");
                        address = address.replace(&format!("{{{name}}}"), example);
                    }
                    (Some("query"), Some("bizType")) => query.push("bizType=orders"),
                    (Some("query"), Some("snowflakeId")) => {
                        query.push("snowflakeId=2123778173958094896")
                    }
                    _ => {}
                }
            }
            let address = format!("{address}?{}", query.join("&"));
            let answer = match method.as_str() {
                "get" => serve.get(&address),
                _ => serve.post(&address, "batchSize=1"),
            };
            assert_eq!(answer.status, 200, "{method} {address}: {}", answer.body);
            let content = operation["responses"]["200"]["content"]
                .as_object()
                .expect("its content");
            let kind = answer
                .header("content-type")
                .split(';')
                .next()
                .expect("a type");
            let body = content.get(kind);
            let schema = &body.unwrap_or_else(|| panic!("{name}: {kind}"))["schema"];
            let Some(reference) = schema["$ref"].as_str() else {
                continue;
            };
            let schema = description.pointer(&reference[1..]).expect("a schema");
            for key in schema["required"].as_array().into_iter().flatten() {
                let value = answer.json().get(key.as_str().expect("a key")).cloned();
                assert!(value.is_some(), "{name} answers no {key}: {}", answer.body);
            }
        }
    }
}
