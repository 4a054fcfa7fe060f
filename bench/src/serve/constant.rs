//! The ceiling: a server of axum and nothing else, which always answers the same.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

/// Serves `/constant/COUNT`: an answer as long as that with so many ids of a tag that has been
/// used for a while. It has as many threads as the machine has cores, as `leafctl serve` has,
/// and ends with this process.
pub fn serve() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("an option");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let answers = [1, 100].map(answer);
            let answer = move |Path(count): Path<usize>| {
                let body = answers[usize::from(count > 1)].clone();
                async move { ([(CONTENT_TYPE, "application/json")], body) }
            };
            let router = Router::new().route("/constant/{count}", get(answer));
            axum::serve(listener, router).await.expect("it serves");
        });
    });
    address
}

fn answer(count: usize) -> Bytes {
    let ids = vec!["\"123456789\""; count].join(",");
    Bytes::from(format!("{{\"ids\":[{ids}]}}\n"))
}
