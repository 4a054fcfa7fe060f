//! examples/kubernetes: its container, started with the arguments, the environment and the files
//! of the manifest, and asked by its probes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use leaf_tests::page::root;
use leaf_tests::{Draw, Mode, Serve, Server, Tls, leafctl, reserved_port, wait_until};
use serde_json::Value;
use tempfile::TempDir;

const TOKEN: &str = "1f0c63a2b1d04e0e8b6e8d3f";
/// Its hash, and what stands in the manifest for it.
const SHA256: &str = "e7d811f4a65c028299408254ab3df02ea0188cb514a3a6b459b2df3138e75d34";
const NO_HASH: &str = "ENTER THE HASH";
/// What stands there for the hash of the token of Prometheus.
const NO_OTHER_HASH: &str = "ENTER ANOTHER HASH";

/// The objects of the manifest.
struct Manifest(Vec<Value>);

impl Manifest {
    /// As Kubernetes reads it: by YAML 1.1, in which 0440 is octal.
    fn read() -> Manifest {
        let program =
            "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
        let file = root().join("examples/kubernetes/leafctl-serve.yaml");
        let output = Command::new("python3")
            .args(["-c", program])
            .stdin(fs::File::open(file).expect("the manifest"))
            .output()
            .expect("python3");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}; `make setup` installs it");
        Manifest(serde_json::from_slice(&output.stdout).expect("objects"))
    }

    /// The object of a kind and a name.
    fn object(&self, kind: &str, name: &str) -> &Value {
        let is_it = |it: &&Value| it["kind"] == kind && it["metadata"]["name"] == name;
        self.0.iter().find(is_it).expect(name)
    }

    /// What a Deployment's pods are.
    fn pod(&self) -> &Value {
        &self.object("Deployment", "leafctl")["spec"]["template"]
    }

    fn container(&self) -> &Value {
        &self.pod()["spec"]["containers"][0]
    }

    fn args(&self) -> Vec<&str> {
        list(&self.container()["args"]).iter().map(text).collect()
    }

    /// The value of an option.
    fn option(&self, name: &str) -> &str {
        let args = self.args();
        let mut values = args.iter().filter_map(|arg| arg.strip_prefix(name));
        let value = values.find_map(|value| value.strip_prefix('='));
        value.expect(name)
    }

    /// A variable's value, or what the Secret has to which it refers.
    fn variable(&self, name: &str) -> &str {
        let variables = list(&self.container()["env"]);
        let variable = variables.iter().find(|it| it["name"] == name).expect(name);
        let source = &variable["valueFrom"]["secretKeyRef"];
        match variable["value"].as_str() {
            Some(value) => value,
            None => {
                let secret = self.object("Secret", text(&source["name"]));
                text(&secret["stringData"][text(&source["key"])])
            }
        }
    }

    /// The address of a probe, which asks the port of the container.
    fn probe(&self, name: &str) -> &str {
        let get = &self.container()[&format!("{name}Probe")]["httpGet"];
        assert_eq!(get["port"], self.container()["ports"][0]["name"], "{name}");
        text(&get["path"])
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// A database for the pods, which lets them in with TLS and their password.
fn database_of(manifest: &Manifest) -> Server {
    let server = Server::options().tls(&Tls::new()).start();
    let [user, database, password] =
        ["PGUSER", "PGDATABASE", "PGPASSWORD"].map(|name| manifest.variable(name));
    let tag = manifest.option("--tag");
    let mut admin = server.connect();
    admin.run(&format!("CREATE DATABASE {database}"));
    admin.run(&format!("CREATE ROLE {user} LOGIN PASSWORD '{password}'"));
    server.connect_as("postgres", database).run(&format!(
        "CREATE EXTENSION leaf;
         SELECT leaf_tag_create('{tag}');
         SELECT leaf_tag_grant('{tag}', '{user}');
         GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew, leaf_worker_release TO {user}"
    ));
    let rules = format!("local all all trust\nhostssl {database} {user} all scram-sha-256\n");
    server.write("pg_hba.conf", rules.as_bytes());
    admin.run("SELECT pg_reload_conf()");
    server
}

/// What a pod has: the volumes, and how to start the container's program.
struct Pod<'a> {
    manifest: &'a Manifest,
    /// The port of the database.
    database: u16,
    /// The volumes, each at its path in the container.
    folder: TempDir,
}

impl<'a> Pod<'a> {
    /// With this hash of the token.
    fn new(manifest: &'a Manifest, server: &Server, hash: &str) -> Pod<'a> {
        let pod = Pod {
            manifest,
            database: server.port(),
            folder: tempfile::tempdir().expect("a folder"),
        };
        for mount in list(&manifest.container()["volumeMounts"]) {
            let volumes = list(&manifest.pod()["spec"]["volumes"]);
            let volume = volumes.iter().find(|it| it["name"] == mount["name"]);
            pod.write(text(&mount["mountPath"]), volume.expect("the volume"), hash);
        }
        pod
    }

    fn write(&self, path: &str, volume: &Value, hash: &str) {
        let path = self.path(path);
        fs::create_dir_all(&path).expect("a folder");
        let Some(secret) = volume["secret"]["secretName"].as_str() else {
            assert!(volume["emptyDir"].is_object(), "{volume}");
            return;
        };
        let files = &self.manifest.object("Secret", secret)["stringData"];
        let mode = number(&volume["secret"]["defaultMode"]) as u32;
        for (name, content) in files.as_object().expect("files") {
            let file = format!("{path}/{name}");
            let content = text(content).replace(NO_HASH, hash);
            let content = content.replace(NO_OTHER_HASH, &"0".repeat(64));
            fs::write(&file, content).expect("a file");
            fs::set_permissions(&file, Permissions::from_mode(mode)).expect("its mode");
        }
    }

    /// A path of the container on this machine.
    fn path(&self, inside: &str) -> String {
        format!("{}{inside}", self.folder.path().display())
    }

    /// The program with the arguments and the variables of the manifest. Only its port, its
    /// folders and the address of the database are others.
    fn command(&self, port: u16) -> Command {
        let container = self.manifest.container();
        let mut command = leafctl();
        for arg in self.manifest.args() {
            let mut arg = arg.to_owned();
            for mount in list(&container["volumeMounts"]) {
                let inside = text(&mount["mountPath"]);
                arg = arg.replace(inside, &self.path(inside));
            }
            if let Some((option, listens)) = arg.split_once("--listen=0.0.0.0:") {
                assert_eq!(container["ports"][0]["containerPort"].to_string(), listens);
                arg = format!("{option}--listen=0.0.0.0:{port}");
            }
            command.arg(arg);
        }
        for variable in list(&container["env"]) {
            let name = text(&variable["name"]);
            command.env(name, self.manifest.variable(name));
        }
        command
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.database.to_string());
        command
    }

    fn start(&self, port: u16) -> Serve {
        Serve::launch(&mut self.command(port))
    }

    /// What a probe is answered.
    fn probe(&self, serve: &Serve, name: &str) -> u16 {
        serve.get(self.manifest.probe(name)).status
    }

    fn wait_ready(&self, serve: &Serve) {
        wait_until("it is ready", || self.probe(serve, "readiness") == 200);
    }
}

/// What somebody with the token is answered.
fn draw(serve: &Serve, address: &str) -> u16 {
    let bearer = format!("Bearer {TOKEN}");
    let answer = serve.get_with(address, &[("authorization", &bearer)]);
    answer.expect("an answer").status
}

/// Draws a snowflake id, and waits for the worker id.
fn draw_snowflake(serve: &Serve) {
    wait_until("it has a worker id", || draw(serve, "/v1/snowflake") == 200);
}

#[test]
fn pod_of_the_example_is_live_without_a_database_and_ready_while_ids_are_at_hand() {
    let manifest = Manifest::read();
    let mut server = database_of(&manifest);
    let pod = Pod::new(&manifest, &server, SHA256);
    server.stop(Mode::Fast);
    let port = reserved_port();
    let serve = pod.start(port);
    assert_eq!(pod.probe(&serve, "liveness"), 200);
    assert_eq!(pod.probe(&serve, "readiness"), 503);
    server.start_again();
    pod.wait_ready(&serve);
    let orders = format!("/v1/segment/{}", manifest.option("--tag"));
    assert_eq!(draw(&serve, &orders), 200);
    assert_eq!(serve.get(&orders).status, 401);
    draw_snowflake(&serve);

    server.stop(Mode::Fast);
    assert_eq!(pod.probe(&serve, "readiness"), 200);
    let many = format!("{orders}?count=500");
    wait_until("there are fewer ids", || draw(&serve, &many) == 503);
    wait_until("no ids are left", || draw(&serve, &orders) == 503);
    assert_eq!(pod.probe(&serve, "readiness"), 503);
    assert_eq!(pod.probe(&serve, "liveness"), 200);

    // The container is restarted in the same pod, and has the worker id of the volume.
    serve.kill();
    let serve = pod.start(port);
    draw_snowflake(&serve);
}

#[test]
fn rolling_update_of_the_example_gives_worker_ids_back_and_the_last_ids() {
    let manifest = Manifest::read();
    let server = database_of(&manifest);
    let mut client = server.connect_as("postgres", manifest.variable("PGDATABASE"));
    let mut number = |query: &str| client.number(query);
    let leased = "SELECT count(*) FROM leaf.worker WHERE leased_until > now()";
    let granted = "SELECT max_id FROM leaf.alloc";
    let pods = [0, 1].map(|_| Pod::new(&manifest, &server, SHA256));
    let [old, new] = pods.each_ref().map(|pod| {
        let serve = pod.start(0);
        pod.wait_ready(&serve);
        draw_snowflake(&serve);
        serve
    });
    assert_eq!(number(leased), 2);
    let both = number(granted);
    old.stop();
    // Its ids are a gap, because others were granted after them.
    assert_eq!((number(leased), number(granted)), (1, both));
    new.stop();
    assert_eq!(number(leased), 0);
    assert!(number(granted) < both);
}

#[test]
fn example_does_not_start_before_there_is_a_token() {
    let manifest = Manifest::read();
    let server = Server::start();
    let pod = Pod::new(&manifest, &server, NO_HASH);
    let output = pod.command(0).output().expect("leafctl");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is not a hash"), "{said}");
}

/// What a text has in seconds, such as `10s`.
fn seconds(text: &str) -> u64 {
    let number = text.strip_suffix('s').expect(text);
    number.parse().expect(text)
}

#[test]
fn example_has_time_to_end_and_memory_for_its_connections() {
    let manifest = Manifest::read();
    let spec = &manifest.pod()["spec"];
    let before = &manifest.container()["lifecycle"]["preStop"]["exec"]["command"];
    assert_eq!(before[0], "sleep");
    let before: u64 = text(&before[1]).parse().expect("seconds");
    let end = before + seconds(manifest.option("--grace"));
    assert!(number(&spec["terminationGracePeriodSeconds"]) > end + 5);

    let page = fs::read_to_string(root().join("docs/serve.md")).expect("the page");
    let (before, _) = page.split_once(" kB\nof memory").expect("what one takes");
    let each: u64 = before
        .rsplit(' ')
        .next()
        .expect("a word")
        .parse()
        .expect("kB");
    let limit = text(&manifest.container()["resources"]["limits"]["memory"]);
    let limit: u64 = limit.strip_suffix("Mi").expect(limit).parse().expect(limit);
    let connections = 10_000 * each * 1_000;
    assert!(
        limit << 20 > 2 * connections,
        "{limit} Mi, {connections} bytes"
    );
}

#[test]
fn objects_of_the_example_find_each_other() {
    let manifest = Manifest::read();
    let labels = &manifest.pod()["metadata"]["labels"];
    let service = &manifest.object("Service", "leafctl")["spec"];
    let budget = &manifest.object("PodDisruptionBudget", "leafctl")["spec"];
    let deployment = &manifest.object("Deployment", "leafctl")["spec"];
    assert_eq!(&service["selector"], labels);
    assert_eq!(&budget["selector"]["matchLabels"], labels);
    assert_eq!(&deployment["selector"]["matchLabels"], labels);
    assert!(number(&budget["minAvailable"]) < number(&deployment["replicas"]));
    assert_eq!(
        service["ports"][0]["targetPort"],
        manifest.container()["ports"][0]["name"]
    );
    // The user of the image.
    let image = fs::read_to_string(root().join("packaging/docker/leafctl.Dockerfile"));
    let security = &manifest.pod()["spec"]["securityContext"];
    let user = format!(
        "\nUSER {}:{}\n",
        security["runAsUser"], security["runAsGroup"]
    );
    assert!(image.expect("the image").contains(&user), "{user}");
    assert_eq!(security["fsGroup"], security["runAsGroup"]);
}
