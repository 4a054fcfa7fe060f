//! The two buffers of a tag, as bars: the segment in use, and the one behind it.

/// Both bars, in this many columns: `███▌   │█████`. A third is left to the next segment.
pub fn buffers([current, next]: [f64; 2], width: usize) -> String {
    let behind = (width.saturating_sub(1) / 3).max(1);
    let in_use = width.saturating_sub(behind + 1).max(1);
    format!("{}│{}", bar(current, in_use), bar(next, behind))
}

/// A bar in eighths of a column. What is not empty shows at least one.
fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let most = width * 8;
    let filled = (share * most as f64).round() as usize;
    let filled = match share > 0.0 {
        true => filled.clamp(1, most),
        false => 0,
    };
    let mut text = "█".repeat(filled / 8) + EIGHTHS[filled % 8];
    let missing = width - text.chars().count();
    text.extend(std::iter::repeat_n(' ', missing));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_wide_as_they_may_be() {
        for width in 3..40 {
            for share in [0.0, 0.001, 0.5, 0.999, 1.0] {
                let bars = buffers([share, 1.0 - share], width);
                assert_eq!(bars.chars().count(), width, "{bars}");
            }
        }
    }

    #[test]
    fn empty_full_and_nearly_empty_differ() {
        assert_eq!(bar(0.0, 4), "    ");
        assert_eq!(bar(0.001, 4), "▏   ");
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(bar(1.0, 4), "████");
    }
}
