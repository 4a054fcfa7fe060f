//! Completions for shells, and manual pages, made of the command line's definition.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output;

/// Print the completions of a shell
///
/// For bash: leafctl completions bash > /etc/bash_completion.d/leafctl
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    shell: Shell,
}

/// Write the manual pages
///
/// Without a folder, the page of leafctl itself is printed: leafctl man | man -l -
#[derive(Debug, clap::Args)]
pub struct PagesArgs {
    /// Write the pages of leafctl and of all its commands into this folder
    #[arg(long, value_name = "FOLDER")]
    directory: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub fn completions(args: &CompletionsArgs, mut leafctl: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut leafctl, "leafctl", &mut script);
    output::write(&script)
}

/// Writes the manual pages.
pub fn pages(args: &PagesArgs, leafctl: Command) -> Result<(), Failure> {
    let Some(folder) = &args.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(leafctl).render(&mut page)?;
        return output::write(&page);
    };
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(leafctl, folder))
        .map_err(|error| Failure::failed(error).about(folder.display()))
}
