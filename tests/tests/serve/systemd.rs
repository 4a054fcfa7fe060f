//! What systemd expects: readiness, sockets that it opens, the watchdog, and the example units.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use leaf_tests::{Mode, Serve, Server, Signal};

/// Receives until this state has come.
fn wait_for(socket: &UnixDatagram, state: &str) {
    let mut buffer = [0; 1024];
    loop {
        let len = socket
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("{state}: {error}"));
        let received = String::from_utf8_lossy(&buffer[..len]);
        if received.lines().any(|line| line == state) {
            return;
        }
    }
}

#[test]
fn readiness_end_and_watchdog_are_told() {
    let (mut server, _) = Server::with_orders(1000);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_nonblocking(true).expect("its mode");
    server.stop(Mode::Fast);
    let mut command = Serve::command(&server.connection_string(), &["--tag=orders"]);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "300000");
    let serve = Serve::launch(&mut command);
    let mut buffer = [0; 1024];
    leaf_tests::wait_until("it has tried", || {
        while let Ok(len) = socket.recv(&mut buffer) {
            assert!(!buffer[..len].starts_with(b"READY"), "no ids are at hand");
        }
        serve.log().contains("not ready yet")
    });
    socket.set_nonblocking(false).expect("its mode");
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a timeout");
    wait_for(&socket, "WATCHDOG=1");
    server.start_again();
    wait_for(&socket, "READY=1");
    assert_eq!(serve.get("/readyz").status, 200);
    serve.signal(Signal::SIGTERM);
    wait_for(&socket, "STOPPING=1");
    assert!(serve.ended().0.success());
}

#[test]
fn socket_that_was_passed_on_is_used() {
    let (server, _) = Server::with_orders(1000);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("its address");
    let serve = Serve::command(&server.connection_string(), &[]);
    // As systemd does it: descriptor 3, and variables that name the process.
    let mut command = Command::new("sh");
    command
        .args(["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\" 3<&0", "sh"])
        .arg(serve.get_program())
        .args(serve.get_args())
        .stdin(Stdio::from(OwnedFd::from(listener)));
    let serve = Serve::launch(&mut command);
    assert_eq!(serve.address(), address);
    serve.ids("orders", 1);
}

#[test]
fn example_units_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/systemd");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a unit");
    let (service, socket) = (read("leafctl-serve.service"), read("leafctl-serve.socket"));
    assert!(service.contains("Type=notify") && socket.contains("ListenStream="));
    // systemd checks programs and manual pages, too: a program that is there stands for leafctl.
    let checked = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = checked.path().join(name);
        let text = text.replace("/usr/bin/leafctl", "/bin/sh");
        std::fs::write(&path, text.replace("man:leafctl-serve(1) ", "")).expect("a file");
        path
    };
    let units = [
        write("leafctl-serve.service", &service),
        write("leafctl-serve.socket", &socket),
    ];
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .args(&units)
        .output();
    match verified {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("leafctl-serve"), "{said}");
        }
        Err(error) => println!("not verified by systemd-analyze: {error}"),
    }
    // Options that the program has.
    assert!(service.contains("\nExecStart=/usr/bin/leafctl serve $OPTIONS\n"));
    let settings = read("serve.env");
    let line = settings
        .lines()
        .find_map(|line| line.strip_prefix("OPTIONS="))
        .expect("OPTIONS")
        .trim_matches('"');
    assert!(line.contains("--listen="), "{line}");
    let help = Serve::command("", &["--help"]).output().expect("leafctl");
    let help = String::from_utf8_lossy(&help.stdout);
    for option in line
        .split_whitespace()
        .filter(|word| word.starts_with("--"))
    {
        let name = option.split('=').next().expect("a name");
        assert!(help.contains(name), "{name}");
    }
}
