//! Callers over HTTP: one thread, many connections that are kept open.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::latency::{Latency, summary_of};

/// Asks for this path on as many connections at once.
pub fn run(address: SocketAddr, path: &str, connections: usize, duration: Duration) -> Latency {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes();
    LocalSet::new().block_on(&runtime, async {
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await.expect("a connection");
            stream.set_nodelay(true).expect("an option");
            streams.push(stream);
        }
        let start = Instant::now();
        let callers: Vec<_> = streams
            .into_iter()
            .map(|stream| tokio::task::spawn_local(call(stream, request.clone(), start + duration)))
            .collect();
        let mut all = Vec::new();
        for caller in callers {
            all.extend(caller.await.expect("a caller that failed said why"));
        }
        summary_of(all, start.elapsed())
    })
}

async fn call(mut stream: TcpStream, request: Vec<u8>, end: Instant) -> Vec<Duration> {
    let mut latencies = Vec::with_capacity(1 << 16);
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let start = Instant::now();
        if start > end {
            return latencies;
        }
        stream.write_all(&request).await.expect("the server reads");
        let (mut read, mut whole) = (0, None);
        while whole.is_none_or(|whole| read < whole) {
            let more = stream
                .read(&mut buffer[read..])
                .await
                .expect("the server answers");
            assert!(more > 0, "the server has closed the connection");
            read += more;
            whole = whole.or_else(|| length(&buffer[..read]));
        }
        latencies.push(start.elapsed());
    }
}

/// How long the whole answer is, once its header has come.
fn length(answer: &[u8]) -> Option<usize> {
    const FIELD: &[u8] = b"content-length: ";
    let header = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    assert!(
        answer.starts_with(b"HTTP/1.1 200 "),
        "{}",
        String::from_utf8_lossy(answer)
    );
    let field = answer
        .windows(FIELD.len())
        .position(|text| text == FIELD)
        .expect("the length");
    let digits = answer[field + FIELD.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    Some(header + digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn answer_ends_after_its_body() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nx: y\r\n\r\n";
        assert_eq!(length(answer), Some(answer.len() + 12));
        assert_eq!(length(&answer[..20]), None);
    }
}
