//! The addresses of Meituan Leaf: its documented requests, and the answers of its controllers.

use leaf_tests::{Serve, Server};

#[test]
fn ids_are_bare_numbers() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &[]);
    for expected in ["1", "2", "3"] {
        let answer = serve.get("/api/segment/get/orders");
        assert_eq!((answer.status, answer.body.as_str()), (200, expected));
        assert_eq!(answer.header("content-type"), "text/plain;charset=UTF-8");
    }
    assert_eq!(serve.post("/api/segment/get/orders", "").body, "4");
    // Its key is of no importance.
    let ids: Vec<i64> = ["test", "orders"]
        .map(|key| {
            serve
                .get(&format!("/api/snowflake/get/{key}"))
                .body
                .parse()
                .expect("an id")
        })
        .to_vec();
    assert!(ids[0] < ids[1]);
}

#[test]
fn unknown_key_is_status_500_with_the_exception_of_leaf() {
    let server = Server::start();
    let serve = Serve::start(&server, &[]);
    let answer = serve.get("/api/segment/get/nothing");
    assert_eq!(answer.status, 500);
    let json = answer.json();
    assert_eq!(json["status"], 500);
    assert_eq!(json["error"], "Internal Server Error");
    assert_eq!(json["message"], "Result{id=-2, status=EXCEPTION}");
    assert_eq!(json["path"], "/api/segment/get/nothing");
}

#[test]
fn snowflake_id_is_decoded_into_the_texts_of_leaf() {
    let server = Server::start();
    let serve = Serve::start(&server, &[]);
    // 2019-09-06 01:35:00.834, of the comment in its LeafMonitorController.
    let id = (1_567_733_700_834_i64 - 1_288_834_974_657) << 22 | 39 << 12 | 3448;
    let answer = serve
        .get(&format!("/decodeSnowflakeId?snowflakeId={id}"))
        .json();
    assert_eq!(
        answer["timestamp"],
        "1567733700834(2019-09-06 01:35:00.834)"
    );
    assert_eq!(answer["workerId"], "39");
    assert_eq!(answer["sequenceId"], "3448");
    let wrong = serve.get("/decodeSnowflakeId?snowflakeId=x");
    assert_eq!(wrong.status, 200);
    assert!(wrong.json()["errorMsg"].is_string());
    assert_eq!(serve.get("/decodeSnowflakeId").status, 400);
}
