//! Colours, and what stands for them where there are none.

use std::io;

use ratatui::style::{Color, Modifier, Style};

/// Styles, with or without colours.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    has_colors: bool,
}

impl Theme {
    /// Without colours if `NO_COLOR` or the command line says so.
    pub fn of_terminal() -> Theme {
        let choice = anstream::AutoStream::choice(&io::stdout());
        Theme {
            has_colors: choice != anstream::ColorChoice::Never,
        }
    }

    #[cfg(test)]
    pub fn without_colors() -> Theme {
        Theme { has_colors: false }
    }

    fn color(self, color: Color) -> Style {
        match self.has_colors {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    pub(super) fn good(self) -> Style {
        self.color(Color::Green)
    }

    pub(super) fn warning(self) -> Style {
        self.color(Color::Yellow)
    }

    pub(super) fn bad(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
