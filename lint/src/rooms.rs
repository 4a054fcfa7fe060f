//! The order of a crate's rooms, as the header of its root says it.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from the top to the bottom; those of one floor do not use each other.
pub struct Order {
    folder: PathBuf,
    floors: Vec<Vec<String>>,
}

impl Order {
    /// That of a crate; empty if the header of its root says none.
    pub fn read(root: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(root).map_err(|e| e.to_string())?;
        let header: Vec<_> = text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .collect();
        let header = header.join(" ");
        let list = header.split_once("in this order from the top:");
        let list = list.map_or("", |(_, list)| list.split('.').next().unwrap_or(list));
        let floors = list.split(',').map(|floor| {
            let quoted = floor.split('`').skip(1).step_by(2);
            quoted.map(str::to_owned).collect::<Vec<_>>()
        });
        Ok(Order {
            folder: root.parent().unwrap_or(Path::new("")).to_owned(),
            floors: floors.filter(|floor| !floor.is_empty()).collect(),
        })
    }

    /// Whether one file must not use another because of the rooms in which they are. The root
    /// and rooms that the order does not name may use all.
    pub fn forbids(&self, from: &Path, to: &Path) -> bool {
        let floor = |file| {
            let room = self.room(file)?;
            self.floors.iter().position(|floor| floor.contains(&room))
        };
        match (floor(from), floor(to)) {
            (Some(at), Some(used)) => used <= at && self.room(from) != self.room(to),
            _ => false,
        }
    }

    fn room(&self, file: &Path) -> Option<String> {
        let inside = file.strip_prefix(&self.folder).ok()?;
        let room = Path::new(inside.components().next()?.as_os_str()).file_stem()?;
        Some(room.to_string_lossy().into_owned())
    }
}
