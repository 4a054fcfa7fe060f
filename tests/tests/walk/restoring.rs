//! Servers and databases are copied.

use crate::steps::{Dump, Restored};
use crate::world::{Following, Kept, World};
use leaf_tests::{Draw, Mode, Server, wait_until};
use std::fs;

impl World {
    /// Starts a copy of a data directory.
    fn start_copy(&mut self, mut copy: Server, kept: Vec<Kept>, is_told: bool) {
        if is_told {
            copy.write("leaf_new_history.signal", b"");
        }
        copy.start_again();
        let machine = self.add(copy, None);
        self.wait_for_nobody(machine);
        self.settle(machine, kept, is_told);
    }

    pub fn copy_cold(&mut self, of: usize, is_told: bool) {
        self.close(of, Mode::Fast);
        let (copy, kept) = (self.machines[of].server.copy(), self.kept(of));
        self.open(of);
        self.start_copy(copy, kept, is_told);
    }

    pub fn copy_hot(&mut self, of: usize, is_told: bool) {
        let server = &self.machines[of].server;
        let paused = server.pause();
        let copy = server.copy();
        drop(paused);
        let kept = self.kept(of);
        self.start_copy(copy, kept, is_told);
    }

    pub fn add_standby(&mut self, of: usize) {
        let server = self.options().start_standby_of(&self.machines[of].server);
        self.add(server, Some(following(of, false)));
        self.catch_up(of);
    }

    pub fn add_subscriber(&mut self, of: usize) {
        // Only one database of each server is published.
        let server = self.options().start();
        let mut client = server.connect();
        let name = self.machines.len();
        let publisher = self.machines[of].server.connection_string();
        client.run(
            "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'));
             CREATE ROLE somebody; CREATE PUBLICATION everything FOR ALL TABLES",
        );
        client.run(&format!(
            "CREATE SUBSCRIPTION everything CONNECTION '{publisher}' PUBLICATION everything WITH (slot_name = 's{name}')"
        ));
        wait_until("all tables are copied", || {
            client.number(
                "SELECT (bool_and(srsubstate = 'r') AND count(*) > 0)::int::bigint FROM pg_subscription_rel",
            ) == 1
        });
        self.add(server, Some(following(of, true)));
        self.catch_up(of);
    }

    /// Restores a base backup that is made now.
    pub fn restore_backup(&mut self, of: usize, how: Restored) {
        let from = &self.machines[of].server;
        let mut copy = self.options().start_backup_of(from);
        let kept = self.kept(of);
        let archive = from.data().join("pg_wal");
        let archive = format!("restore_command = 'cp {}/%f %p'\n", archive.display());
        match how {
            Restored::Plain => {}
            Restored::Archive => {
                copy.configure(&archive);
                copy.write("recovery.signal", b"");
            }
            Restored::ArchiveAsStandby => {
                copy.configure(&archive);
                copy.write("standby.signal", b"");
            }
        }
        copy.start_again();
        match how {
            Restored::ArchiveAsStandby => {
                copy.catch_up_with(from);
                drop(copy.promote());
            }
            Restored::Plain | Restored::Archive => copy.ends_recovery(),
        }
        let machine = self.add(copy, None);
        self.wait_for_nobody(machine);
        self.settle(machine, kept, true);
    }

    /// Restores a dump of a database as another one of a server.
    pub fn restore_dump(&mut self, place: usize, to: usize, how: Dump) {
        let place = self.places[place].clone();
        let from = &self.machines[place.machine].server;
        let kept = Kept {
            database: format!("d{}", self.handed_out() + self.places.len()),
            life: place.life,
            entries: self.oracle.entries(),
        };
        let file = from.data().with_file_name("dump").display().to_string();
        let _ = fs::remove_file(&file);
        let format = match how {
            Dump::Plain => "-Fp",
            Dump::Custom | Dump::Apart | Dump::ApartDisablingTriggers => "-Fc",
        };
        from.run_program(
            "pg_dump",
            &[format, "--no-subscriptions", "-f", &file, &place.database],
        );
        let server = &self.machines[to].server;
        let database = kept.database.as_str();
        self.session(to, "postgres")
            .run(&format!("CREATE DATABASE {database}"));
        let run = |program: &str, options: &[&str]| {
            server.run_program(program, &[options, &["-d", database]].concat());
        };
        match how {
            Dump::Plain => run("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", &file]),
            Dump::Custom => run("pg_restore", &[file.as_str()]),
            Dump::Apart => {
                run("pg_restore", &["--schema-only", &file]);
                run("pg_restore", &["--data-only", &file]);
            }
            Dump::ApartDisablingTriggers => {
                run("pg_restore", &["--schema-only", &file]);
                run("pg_restore", &["--data-only", "--disable-triggers", &file]);
            }
        }
        self.settle(to, vec![kept], true);
    }
}

fn following(of: usize, is_logical: bool) -> Following {
    Following {
        of,
        is_logical,
        is_cut: false,
        kept: Vec::new(),
    }
}
