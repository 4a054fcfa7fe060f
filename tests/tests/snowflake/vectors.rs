//! SQL reads snowflake ids as the test vectors of `leaf-core` say.

use leaf_tests::Server;
use std::time::{Duration, SystemTime};

const VECTORS: &str = include_str!("../../../core/vectors/snowflake.csv");

fn instant(us: &str) -> SystemTime {
    let us: i64 = us.parse().expect("microseconds since 1970");
    let distance = Duration::from_micros(us.unsigned_abs());
    match us < 0 {
        true => SystemTime::UNIX_EPOCH - distance,
        false => SystemTime::UNIX_EPOCH + distance,
    }
}

#[test]
fn ids_of_the_vectors_say_what_the_vectors_say() {
    let server = Server::start();
    let mut client = server.connect();
    let statement = client
        .prepare(
            "SELECT created_at, worker_id, sequence, leaf_snowflake_floor($4, $2, $3)
               FROM leaf_snowflake_decode($1, $2, $3)",
        )
        .expect("a statement");
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines.skip(1) {
        let fields: Vec<&str> = line.split(';').collect();
        let [layout, epoch, created, worker, sequence, id] = fields[..] else {
            panic!("not six fields: {line}");
        };
        let number = |text: &str| text.parse::<i64>().expect("a number");
        let row = client
            .query_one(
                &statement,
                &[&number(id), &layout, &instant(epoch), &instant(created)],
            )
            .unwrap_or_else(|error| panic!("{line}: {error:?}"));
        assert_eq!(row.get::<_, SystemTime>(0), instant(created), "{line}");
        assert_eq!(i64::from(row.get::<_, i32>(1)), number(worker), "{line}");
        assert_eq!(i64::from(row.get::<_, i32>(2)), number(sequence), "{line}");
        let floor: i64 = row.get(3);
        assert!(floor <= number(id), "{line}: {floor}");
        assert_eq!(
            worker == "0" && sequence == "0",
            floor == number(id),
            "{line}"
        );
        count += 1;
    }
    assert!(count > 50, "only {count} vectors");
}
