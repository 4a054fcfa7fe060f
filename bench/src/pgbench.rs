//! Transactions per second, as reported by `pgbench`.

use std::io::Write;
use std::process::Stdio;

use leaf_tests::Server;

use crate::runs::Runs;

/// Runs one statement repeatedly, as a prepared statement, in `clients` sessions;
/// returns the number of executions per second.
pub fn tps(server: &Server, runs: Runs, clients: u32, statement: &str) -> f64 {
    let mut child = server
        .program("pgbench")
        .args(["-n", "-M", "prepared", "-j", "2", "-f", "-", "-c"])
        .arg(clients.to_string())
        .arg("-T")
        .arg(runs.duration(5).as_secs().to_string())
        .arg("postgres")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pgbench runs");
    let mut script = child.stdin.take().expect("a pipe");
    writeln!(script, "{statement};").expect("pgbench reads its script");
    drop(script);
    let output = child.wait_with_output().expect("pgbench ends");
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pgbench: {complaints}");
    tps_in(&printed).unwrap_or_else(|| panic!("no tps in {printed}{complaints}"))
}

fn tps_in(printed: &str) -> Option<f64> {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))?;
    line.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_among_what_pgbench_prints() {
        let printed = "latency average = 0.1 ms\ntps = 81234.5 (without initial connection time)\n";
        assert_eq!(tps_in(printed), Some(81234.5));
        assert_eq!(tps_in("nothing"), None);
    }
}
