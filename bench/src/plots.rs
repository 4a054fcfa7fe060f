//! Drawings of figures, as SVG.

use std::error::Error;

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use crate::latency::{Latency, SHARES};

const SIZE: (u32, u32) = (760, 420);

/// Of all texts: they are not smaller than those around a plot.
const FONT: (&str, i32) = ("sans-serif", 14);

/// About how wide a letter is, and how high a line.
const LETTER: u32 = 7;
const LINE: i32 = 17;

/// On a dark page, black and white change places.
const DARK: &str = "<style>@media (prefers-color-scheme: dark) {
rect[fill=\"#FFFFFF\"] { fill: #1d1f21 }
text[fill=\"#000000\"] { fill: #d0d0d0 }
[stroke=\"#000000\"] { stroke: #d0d0d0 }
}</style>";

/// Colours that people who see fewer of them can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// A line of a plot.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// A line without points.
    pub fn of(name: &str) -> Line {
        Line {
            name: name.to_owned(),
            points: Vec::new(),
        }
    }
}

type Drawn = Result<(), Box<dyn Error>>;

/// The text of a drawing.
fn svg(draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Drawn) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).expect("a string takes all");
        draw(&area).expect("figures that can be drawn");
        area.present().expect("a string takes all");
    }
    let opening = text.find('>').map_or(0, |at| at + 1);
    text.insert_str(opening, DARK);
    text
}

/// Ids per second by the number of sessions.
pub fn by_sessions(lines: &[Line]) -> String {
    let most_sessions = largest(lines, |point| point.0);
    let in_millions = |line: &Line| Line {
        name: line.name.clone(),
        points: line.points.iter().map(|(x, y)| (*x, y / 1e6)).collect(),
    };
    let lines: Vec<_> = lines.iter().map(in_millions).collect();
    let most = largest(&lines, |point| point.1);
    svg(|area| {
        let mut chart = frame(area, &lines)
            .build_cartesian_2d((1.0..most_sessions).log_scale().base(2.0), 0.0..most * 1.1)?;
        chart
            .configure_mesh()
            .label_style(FONT)
            .axis_desc_style(FONT)
            .disable_x_mesh()
            .max_light_lines(1)
            .x_labels(4)
            .x_desc("sessions")
            .y_desc("million ids per second")
            .y_label_formatter(&|ids| format!("{ids:.0}"))
            .x_label_formatter(&|sessions| format!("{sessions:.0}"))
            .draw()?;
        draw(area, &mut chart, &lines)
    })
}

/// How long calls take: the share of calls, and what none of them exceeds.
pub fn latencies(named: &[(&str, Latency)]) -> String {
    // 90 % is 10: one call of so many takes longer.
    let one_of = |share: f64| 1.0 / (1.0 - share);
    let line = |(name, latency): &(&str, Latency)| Line {
        name: name.replace('`', ""),
        points: SHARES.map(one_of).into_iter().zip(latency.curve).collect(),
    };
    let lines: Vec<_> = named.iter().map(line).collect();
    let milliseconds = named.iter().flat_map(|(_, latency)| latency.curve);
    let lowest = milliseconds.fold(f64::INFINITY, f64::min);
    let highest = largest(&lines, |point| point.1);
    let last = one_of(SHARES[SHARES.len() - 1]);
    svg(|area| {
        let mut chart = frame(area, &lines).build_cartesian_2d(
            (2.0..last).log_scale(),
            (lowest * 0.8..highest * 1.25).log_scale(),
        )?;
        chart
            .configure_mesh()
            .label_style(FONT)
            .axis_desc_style(FONT)
            .x_desc("share of calls that take no longer")
            .y_desc("milliseconds")
            .x_label_formatter(&|calls| share_of(*calls))
            .y_label_formatter(&|time| format!("{time}"))
            .draw()?;
        draw(area, &mut chart, &lines)
    })
}

/// Ids per second over time, in seconds, and what happened meanwhile.
pub fn timeline(lines: &[Line], marks: &[(f64, String)]) -> String {
    let end = largest(lines, |point| point.0);
    let most = largest(lines, |point| point.1) * 1.3;
    svg(|area| {
        let mut chart = frame(area, lines).build_cartesian_2d(0.0..end, 0.0..most)?;
        chart
            .configure_mesh()
            .label_style(FONT)
            .axis_desc_style(FONT)
            .disable_x_mesh()
            .max_light_lines(1)
            .x_desc("seconds")
            .y_desc("ids per second")
            .x_label_formatter(&|time| format!("{time:.0}"))
            .y_label_formatter(&|ids| format!("{ids:.0}"))
            .draw()?;
        for (number, (at, what)) in marks.iter().enumerate() {
            let line = [(*at, 0.0), (*at, most)];
            chart.draw_series(LineSeries::new(line, BLACK.mix(0.5)))?;
            let height = most * (0.97 - 0.06 * (number % 3) as f64);
            // Beside the line, on the side that has room.
            let width = 0.008 * what.len() as f64 * end;
            let left = match *at + width < end {
                true => *at + end * 0.006,
                false => *at - width,
            };
            let place = (left, height);
            chart.draw_series([Text::new(what.clone(), place, FONT)])?;
        }
        draw(area, &mut chart, lines)
    })
}

/// What surrounds each plot, with room for the names of its lines on the right.
fn frame<'a, 'b>(
    area: &'a DrawingArea<SVGBackend<'b>, Shift>,
    lines: &[Line],
) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let longest = lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
    let mut frame = ChartBuilder::on(area);
    let sides = frame.margin(16).margin_right(24 + LETTER * longest as u32);
    sides.x_label_area_size(44).y_label_area_size(64);
    frame
}

/// Draws the lines, each with its name at its end.
fn draw<'a, X, Y>(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    lines: &[Line],
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut names = Vec::new();
    for (line, colour) in lines.iter().zip(COLOURS) {
        let points = line.points.iter().copied();
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        if let Some(last) = line.points.last() {
            names.push((chart.backend_coord(last), &line.name, colour));
        }
    }
    names.sort_by_key(|((_, y), ..)| *y);
    let heights = apart(names.iter().map(|((_, y), ..)| *y).collect());
    for (((x, _), name, colour), y) in names.into_iter().zip(heights) {
        let style = FONT.into_font().color(&colour);
        area.draw(&Text::new(name.as_str(), (x + 8, y - LINE / 2), style))?;
    }
    Ok(())
}

/// Heights of names, from the top, that do not overlap: as near to the wanted ones as the lower edge
/// of the drawing allows.
fn apart(mut heights: Vec<i32>) -> Vec<i32> {
    let lowest = SIZE.1 as i32 - 60;
    for at in 1..heights.len() {
        heights[at] = heights[at].max(heights[at - 1] + LINE);
    }
    let mut limit = lowest;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(limit);
        limit = *height - LINE;
    }
    heights
}

/// 99 % for 100.
fn share_of(calls: f64) -> String {
    let percent = 100.0 - 100.0 / calls;
    let digits = (calls.log10().round() as usize).saturating_sub(2);
    format!("{percent:.digits$} %")
}

fn largest(lines: &[Line], of: fn(&(f64, f64)) -> f64) -> f64 {
    lines
        .iter()
        .flat_map(|line| line.points.iter().map(of))
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_of_a_thousand_is_the_last_tenth_of_a_percent() {
        assert_eq!(share_of(10.0), "90 %");
        assert_eq!(share_of(100.0), "99 %");
        assert_eq!(share_of(1_000.0), "99.9 %");
        assert_eq!(share_of(10_000.0), "99.99 %");
    }

    #[test]
    fn each_line_and_what_happened_have_their_names_in_the_drawing() {
        let line = |name: &str| Line {
            name: name.to_owned(),
            points: vec![(1.0, 10.0), (2.0, 20.0), (8.0, 5.0)],
        };
        let lines = [line("sessions"), line("client library")];
        let marks = [(2.0, "the leader is killed".to_owned())];
        for drawing in [timeline(&lines, &marks), by_sessions(&lines)] {
            assert!(drawing.starts_with("<svg"), "{drawing}");
            assert!(drawing.contains("sessions") && drawing.contains("client library"));
        }
        assert!(timeline(&lines, &marks).contains("the leader is killed"));
    }

    #[test]
    fn names_do_not_overlap() {
        assert_eq!(apart(vec![10, 100, 200]), [10, 100, 200]);
        assert_eq!(apart(vec![100, 101, 102]), [100, 117, 134]);
        let low = apart(vec![350, 355, 358, 359]);
        assert!(
            low.windows(2).all(|pair| pair[1] - pair[0] >= LINE),
            "{low:?}"
        );
        assert!(low[3] <= SIZE.1 as i32 - 60, "{low:?}");
    }
}
