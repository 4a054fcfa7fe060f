//! Some servers, what each is, and the steps of a walk on them.

use crate::oracle::{Beginning, Life, Oracle};
use crate::steps::{Copy, Files, LATEST, Step, Use, Walk};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Mode, Options, Server, wait_until};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A database that hands out ids.
#[derive(Clone, Debug)]
pub struct Place {
    pub machine: usize,
    pub database: String,
    pub life: Life,
}

/// What a copy has of a place.
#[derive(Clone, Debug)]
pub struct Kept {
    pub database: String,
    pub life: Life,
    /// So many entries of that life.
    pub entries: usize,
}

/// What a server is that hands out nothing, because it follows another one.
pub struct Following {
    pub of: usize,
    pub is_logical: bool,
    pub is_cut: bool,
    /// What it had when it was last known to have everything.
    pub kept: Vec<Kept>,
}

pub struct Machine {
    pub server: Server,
    pub is_open: bool,
    /// Whether it was shut down cleanly, if it is not open.
    pub is_clean: bool,
    pub following: Option<Following>,
    /// Whose standby it was.
    promoted_from: Option<usize>,
    /// How many there were then: standbys that were made later have no WAL of before.
    promoted_among: usize,
    /// The follower by which its commits are confirmed.
    sync: Option<usize>,
    older: Option<PathBuf>,
}

pub struct World {
    pub machines: Vec<Machine>,
    pub places: Vec<Place>,
    pub oracle: Oracle,
    pub history_skip: i64,
    is_lossless: bool,
    transcript: Vec<String>,
}

/// As many servers as there are at most.
const MOST: usize = 4;

impl World {
    /// One server with a tag, and a table whose default draws from it.
    pub fn begin(walk: &Walk) -> World {
        let mut world = World {
            machines: Vec::new(),
            places: Vec::new(),
            oracle: Oracle::default(),
            history_skip: walk.history_skip,
            is_lossless: walk.is_lossless,
            transcript: vec![format!(
                "leaf.history_skip = {}, leaf.lossless_failover = {}",
                walk.history_skip, walk.is_lossless
            )],
        };
        let server = world.options().start();
        server.connect().run(
            "CREATE ROLE somebody; CREATE PUBLICATION everything FOR ALL TABLES;
             SELECT leaf_tag_create('orders', step => 100, max_step => 100);
             CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'))",
        );
        world.add(server, None);
        let life = world.oracle.begin(Beginning::default());
        world.places.push(Place {
            machine: 0,
            database: "postgres".to_owned(),
            life,
        });
        world
    }

    /// What all servers are like; a standby's name is that of the machine.
    pub fn options(&self) -> Options {
        Server::options()
            .set("fsync", "off")
            // The grants of leaf wait for a standby all the same.
            .set("synchronous_commit", "local")
            .set("cluster_name", &format!("s{}", self.machines.len()))
            .set("wal_level", "logical")
            .set("wal_log_hints", "on")
            .set("wal_keep_size", "1GB")
            .set("max_wal_senders", "20")
            .set("max_replication_slots", "20")
            .set("max_worker_processes", "30")
            .set("wal_retrieve_retry_interval", "100ms")
            .set("leaf.history_skip", &self.history_skip.to_string())
            .set("leaf.allow_unreplicated_centre", "on")
            .set(
                "leaf.lossless_failover",
                if self.is_lossless { "on" } else { "off" },
            )
            .set("leaf.wait_timeout", "500ms")
    }

    pub fn add(&mut self, server: Server, following: Option<Following>) -> usize {
        self.machines.push(Machine {
            server,
            is_open: true,
            is_clean: false,
            following,
            promoted_from: None,
            promoted_among: 0,
            sync: None,
            older: None,
        });
        self.machines.len() - 1
    }

    pub fn note(&mut self, line: String) {
        self.transcript.push(line);
    }

    pub fn transcript(&self) -> String {
        self.transcript.join("\n")
    }

    /// How many ids were handed out.
    pub fn handed_out(&self) -> usize {
        self.oracle.entries()
    }

    pub fn play(&mut self, steps: &[Step]) -> Result<(), String> {
        for step in steps {
            self.note(format!("{step:?}"));
            self.step(step)?;
        }
        self.note("at last, all".to_owned());
        for machine in 0..self.machines.len() {
            if !self.machines[machine].is_open {
                self.open(machine);
            }
        }
        for _ in 0..2 {
            for place in 0..self.places.len() {
                for what in [Use::Draw(150), Use::Feed(8), Use::Flakes(200)] {
                    self.hand_out(place, what)?;
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Use(of, what) => match self.place(of) {
                Some(place) => self.hand_out(place, what)?,
                None => self.note("  nobody".to_owned()),
            },
            Step::Touch(of, what) => {
                if let Some(place) = self.place(of) {
                    self.touch(place, what);
                }
            }
            Step::Copy(of, how) => {
                let of = self.primary(of).filter(|_| self.machines.len() < MOST);
                if let Some(of) = of {
                    match how {
                        Copy::Cold(is_told) => self.copy_cold(of, is_told),
                        Copy::Hot(is_told) => self.copy_hot(of, is_told),
                        Copy::Standby => self.add_standby(of),
                        // Its slot would wait for transactions that wait for the standby.
                        Copy::Subscriber if self.is_held_up(of) => {}
                        Copy::Subscriber => self.add_subscriber(of),
                        Copy::Backup(how) => self.restore_backup(of, how),
                    }
                }
            }
            Step::Dump(of, to, how) => {
                if let (Some(of), Some(to)) = (self.place(of), self.primary(to)) {
                    self.restore_dump(of, to, how);
                }
            }
            Step::Sync(of, name) => self.choose_sync(of, name),
            Step::Cut(of) => {
                if let Some(follower) = self.follower(of) {
                    self.cut(follower);
                }
            }
            Step::Promote(of, is_killed) => {
                if let Some(follower) = self.follower(of) {
                    self.promote(follower, is_killed);
                }
            }
            Step::Return(of) => {
                if let Some(machine) = self.own(of) {
                    self.come_back(machine);
                }
            }
            Step::Rejoin(of) => self.rejoin(of),
            Step::Follow(of) => self.follow_next(of),
            Step::Restart(of, mode, files) => {
                if let Some(machine) = self.own(of) {
                    self.restart(machine, mode, files);
                }
            }
        }
        Ok(())
    }

    /// One of what there is.
    fn pick(all: &[usize], number: usize) -> Option<usize> {
        match number {
            LATEST => all.last().copied(),
            _ => all.get(number % all.len().max(1)).copied(),
        }
    }

    fn machines_with(&self, is_so: impl Fn(&Machine) -> bool) -> Vec<usize> {
        let numbered = self.machines.iter().enumerate();
        numbered
            .filter(|(_, machine)| is_so(machine))
            .map(|(at, _)| at)
            .collect()
    }

    /// A machine that follows no other one.
    fn own(&self, number: usize) -> Option<usize> {
        Self::pick(&self.machines_with(|it| it.following.is_none()), number)
    }

    fn primary(&self, number: usize) -> Option<usize> {
        Self::pick(
            &self.machines_with(|it| it.following.is_none() && it.is_open),
            number,
        )
    }

    fn follower(&self, number: usize) -> Option<usize> {
        Self::pick(
            &self.machines_with(|it| it.following.is_some() && it.is_open),
            number,
        )
    }

    /// A database of a server that runs.
    fn place(&self, number: usize) -> Option<usize> {
        let all: Vec<_> = (0..self.places.len())
            .filter(|&at| self.machines[self.places[at].machine].is_open)
            .collect();
        Self::pick(&all, number)
    }

    pub fn session(&self, machine: usize, database: &str) -> Client {
        let server = &self.machines[machine].server;
        server.connect_as("postgres", database)
    }

    /// Whether a server's grants wait for a standby that confirms nothing.
    pub fn is_held_up(&self, machine: usize) -> bool {
        self.machines[machine].sync.is_some_and(|standby| {
            let standby = &self.machines[standby];
            let following = standby.following.as_ref();
            !standby.is_open || following.is_none_or(|it| it.is_cut || it.of != machine)
        })
    }

    /// What a copy of a machine has now.
    pub fn kept(&self, machine: usize) -> Vec<Kept> {
        let places = self.places.iter().filter(|it| it.machine == machine);
        places
            .map(|place| Kept {
                database: place.database.clone(),
                life: place.life,
                entries: self.oracle.entries(),
            })
            .collect()
    }

    /// Waits until all followers have all that their primary has, if they can get it.
    pub fn catch_up(&mut self, primary: usize) {
        // What follows a follower is not known to have more than it had.
        if !self.machines[primary].is_open || self.machines[primary].following.is_some() {
            return;
        }
        let kept = self.kept(primary);
        for follower in 0..self.machines.len() {
            let Some(following) = &self.machines[follower].following else {
                continue;
            };
            if following.of != primary || following.is_cut || !self.machines[follower].is_open {
                continue;
            }
            let (from, to) = (
                &self.machines[primary].server,
                &self.machines[follower].server,
            );
            match following.is_logical {
                false => to.catch_up_with(from),
                true => {
                    let mut client = from.connect();
                    let end = client.text("SELECT pg_current_wal_lsn()::text");
                    let confirmed = format!(
                        "SELECT count(*) FROM pg_replication_slots
                          WHERE slot_name = 's{follower}' AND confirmed_flush_lsn >= '{end}'"
                    );
                    wait_until("the subscriber has everything", || {
                        client.number(&confirmed) == 1
                    });
                }
            }
            let following = self.machines[follower].following.as_mut();
            let following = following.expect("it follows");
            following.kept = kept.clone();
            if following.is_logical {
                following.kept.retain(|it| it.database == "postgres");
            }
        }
    }

    /// A server's commits are confirmed by nobody else, whatever those of its original were.
    pub fn wait_for_nobody(&self, machine: usize) {
        let server = &self.machines[machine].server;
        if !server
            .connect()
            .text("SHOW synchronous_standby_names")
            .is_empty()
        {
            server.reload("synchronous_standby_names", "");
        }
    }

    fn choose_sync(&mut self, of: usize, name: Option<usize>) {
        let Some(primary) = self.primary(of) else {
            return;
        };
        let standbys = self.machines_with(|it| {
            it.following
                .as_ref()
                .is_some_and(|it| it.of == primary && !it.is_logical)
        });
        let standby = name.and_then(|name| Self::pick(&standbys, name));
        let names = standby.map_or(String::new(), |standby| format!("s{standby}"));
        self.machines[primary].sync = standby;
        self.machines[primary]
            .server
            .reload("synchronous_standby_names", &names);
    }

    /// A follower gets nothing more.
    fn cut(&mut self, follower: usize) {
        let following = self.machines[follower]
            .following
            .as_ref()
            .expect("it follows");
        let (of, is_logical, is_cut) = (following.of, following.is_logical, following.is_cut);
        if is_cut {
            return;
        }
        self.catch_up(of);
        let server = &self.machines[follower].server;
        let mut client = server.connect();
        match is_logical {
            true => client.run("ALTER SUBSCRIPTION everything DISABLE"),
            false => server.reload("primary_conninfo", ""),
        }
        let getting = match is_logical {
            true => "SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL",
            // After the end of a timeline, it waits to be told.
            false => "SELECT count(*) FROM pg_stat_wal_receiver WHERE status <> 'waiting'",
        };
        wait_until("it gets nothing more", || client.number(getting) == 0);
        let following = self.machines[follower].following.as_mut();
        following.expect("it follows").is_cut = true;
    }

    /// A follower goes its own way.
    fn promote(&mut self, follower: usize, is_killed: bool) {
        let following = self.machines[follower]
            .following
            .as_ref()
            .expect("it follows");
        let (of, is_logical) = (following.of, following.is_logical);
        let is_ours = self.is_lossless && !is_logical && !following.is_cut && is_killed;
        self.catch_up(of);
        if is_killed && self.machines[of].is_open {
            self.machines[of].server.kill_postmaster();
            self.machines[of].is_open = false;
            self.machines[of].is_clean = false;
        }
        if is_ours {
            // The setting says of the predecessor that it hands out nothing any more.
            self.places.retain(|it| it.machine != of);
        }
        if self.is_lossless && !is_ours && !is_logical {
            let server = &mut self.machines[follower].server;
            server.configure("leaf.lossless_failover = off\n");
            server.restart(Mode::Fast);
        }
        match is_logical {
            true => self.cut_subscription(follower),
            false => drop(self.machines[follower].server.promote()),
        }
        self.begins_a_timeline(follower);
        let among = self.machines.len();
        let machine = &mut self.machines[follower];
        machine.promoted_among = among;
        machine.promoted_from = Some(of).filter(|_| !is_logical);
        let kept = machine.following.take().expect("it follows").kept;
        self.wait_for_nobody(follower);
        self.settle(follower, kept, true);
    }

    fn cut_subscription(&mut self, follower: usize) {
        let server = &self.machines[follower].server;
        server.connect().run(
            "ALTER SUBSCRIPTION everything DISABLE;
             ALTER SUBSCRIPTION everything SET (slot_name = NONE); DROP SUBSCRIPTION everything",
        );
    }

    /// Starts a server that was stopped.
    pub fn open(&mut self, machine: usize) {
        self.machines[machine].server.start_again();
        self.machines[machine].is_open = true;
    }

    /// Stops a server that follows no other, if it runs; its followers have everything then.
    pub fn close(&mut self, machine: usize, mode: Mode) {
        if self.machines[machine].is_open {
            self.catch_up(machine);
            self.machines[machine].server.stop(mode);
            self.machines[machine].is_open = false;
            self.machines[machine].is_clean = mode == Mode::Fast;
        }
    }

    fn restart(&mut self, machine: usize, mode: Mode, files: Files) {
        self.close(machine, mode);
        let data = self.machines[machine].server.data();
        let ours = ["leaf", "pg_stat_tmp/leaf.ranges"];
        let earlier = self.machines[machine].older.clone();
        let folder = data.with_file_name(format!("older{}", self.transcript.len()));
        for file in ours {
            let kept = folder.join(file);
            fs::create_dir_all(kept.parent().expect("a folder")).expect("a folder");
            copy(&data.join(file), &kept);
        }
        self.machines[machine].older = Some(folder);
        match files {
            Files::Kept => {}
            Files::Removed(file) => remove(&data.join(file)),
            Files::Older => {
                for (file, earlier) in ours.iter().zip(earlier.iter().cycle()) {
                    remove(&data.join(file));
                    copy(&earlier.join(file), &data.join(file));
                }
            }
        }
        self.open(machine);
    }

    /// A server that was stopped comes back as a standby, as if somebody did not know what had led
    /// meanwhile, and is promoted.
    fn come_back(&mut self, machine: usize) {
        self.close(machine, Mode::Fast);
        if !self.machines[machine].is_clean {
            return self.open(machine);
        }
        let kept = self.kept(machine);
        self.machines[machine].sync = None;
        let server = &self.machines[machine].server;
        server.unconfigure("primary_conninfo");
        server.configure("primary_conninfo = ''\n");
        server.write("standby.signal", b"");
        self.open(machine);
        drop(self.machines[machine].server.promote());
        self.begins_a_timeline(machine);
        self.places.retain(|it| it.machine != machine);
        self.wait_for_nobody(machine);
        self.settle(machine, kept, true);
    }

    /// What was promoted from this server may have a timeline of the same number.
    fn begins_a_timeline(&mut self, machine: usize) {
        for other in &mut self.machines {
            other.promoted_from = other.promoted_from.filter(|&from| from != machine);
        }
    }

    /// A server whose standby was promoted follows that one.
    fn rejoin(&mut self, of: usize) {
        let promoted = self.machines_with(|it| {
            let from = it.promoted_from.map(|from| &self.machines[from]);
            it.is_open && it.following.is_none() && from.is_some_and(|it| it.following.is_none())
        });
        let Some(primary) = Self::pick(&promoted, of) else {
            return;
        };
        let follower = self.machines[primary].promoted_from.expect("a predecessor");
        self.close(follower, Mode::Fast);
        self.machines[primary].promoted_from = None;
        self.follow(follower, primary);
    }

    /// A follower follows the one that was promoted when both had the same primary.
    fn follow_next(&mut self, of: usize) {
        let next = |follower: usize| {
            let following = self.machines[follower].following.as_ref();
            let of = following.filter(|it| !it.is_logical)?.of;
            let promoted = self.machines_with(|it| {
                it.is_open
                    && it.following.is_none()
                    && it.promoted_from == Some(of)
                    && follower < it.promoted_among
            });
            promoted.first().copied()
        };
        let mut followers = self.machines_with(|it| it.is_open && it.following.is_some());
        followers.retain(|&follower| next(follower).is_some());
        let Some(follower) = Self::pick(&followers, of) else {
            return;
        };
        let primary = next(follower).expect("one was promoted");
        self.machines[follower].server.stop(Mode::Fast);
        self.follow(follower, primary);
    }

    /// A stopped server follows another one, and loses what that lacks.
    fn follow(&mut self, follower: usize, primary: usize) {
        self.machines[primary].server.connect().run("CHECKPOINT");
        let [follower_server, primary_server] =
            [follower, primary].map(|at| &self.machines[at].server);
        follower_server.rewind_to(primary_server);
        follower_server.write("standby.signal", b"");
        follower_server.configure(&format!(
            "primary_conninfo = '{} application_name=s{follower}'\n",
            primary_server.connection_string()
        ));
        self.machines[follower].sync = None;
        self.places.retain(|it| it.machine != follower);
        self.machines[follower].following = Some(Following {
            of: primary,
            is_logical: false,
            is_cut: false,
            kept: Vec::new(),
        });
        self.open(follower);
        self.catch_up(primary);
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    if from.exists() {
        let copied = Command::new("cp").arg("-a").args([from, to]).status();
        assert!(copied.expect("cp").success(), "{from:?}");
    }
}

fn remove(path: &std::path::Path) {
    let _ = fs::remove_dir_all(path);
    let _ = fs::remove_file(path);
}
