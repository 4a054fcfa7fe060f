//! Drawings of figures, as SVG.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::latency::{Latency, SHARES};

/// Of a plot, without the names of its lines above it. A phone shows it at two thirds of that.
const SIZE: (u32, u32) = (540, 380);

/// Of all texts, so that they can be read on a phone, too; the library makes them smaller by a fifth.
const FONT: (&str, i32) = ("sans-serif", 22);

/// About how wide a letter is, and how high a line.
const LETTER: f64 = 9.0;
const LINE: i32 = 24;

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

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The text of a drawing: the names of the lines, and below them what `draw` draws.
fn svg(lines: &[Line], draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut text = String::new();
    {
        let names = LINE * lines.len() as i32 + 8;
        let size = (SIZE.0, SIZE.1 + names as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).expect("a string takes all");
        let (above, below) = area.split_vertically(names);
        name(&above, lines).expect("names that can be drawn");
        draw(&below).expect("figures that can be drawn");
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
    svg(&lines, |area| {
        let mut chart = frame(area)
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
        draw(&mut chart, &lines)
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
    svg(&lines, |area| {
        let mut chart = frame(area).build_cartesian_2d(
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
            .y_label_formatter(&|time| round(*time))
            .draw()?;
        draw(&mut chart, &lines)
    })
}

/// A duration that begins with 1, 2 or 5; others stand too near to each other.
fn round(time: f64) -> String {
    let text = format!("{time}");
    let first = text.trim_start_matches(['0', '.']).chars().next();
    match first.is_some_and(|digit| "125".contains(digit)) {
        true => text,
        false => String::new(),
    }
}

/// Ids per second over time, in seconds, and what happened meanwhile.
pub fn timeline(lines: &[Line], marks: &[(f64, String)]) -> String {
    let end = largest(lines, |point| point.0);
    let most = largest(lines, |point| point.1) * 1.4;
    svg(lines, |area| {
        let mut chart = frame(area).build_cartesian_2d(0.0..end, 0.0..most)?;
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
            let height = most * (0.97 - 0.09 * (number % 3) as f64);
            // Beside the line, on the side that has room.
            let width = LETTER * what.len() as f64 / f64::from(SIZE.0 - 112) * end;
            let left = match *at + width < end {
                true => *at + end * 0.006,
                false => *at - width,
            };
            let place = (left, height);
            chart.draw_series([Text::new(what.clone(), place, FONT)])?;
        }
        draw(&mut chart, lines)
    })
}

/// What surrounds each plot.
fn frame<'a, 'b>(area: &'a Area<'b>) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut frame = ChartBuilder::on(area);
    // The last label below reaches over the edge.
    let sides = frame.margin(16).margin_right(34);
    sides.x_label_area_size(54).y_label_area_size(80);
    frame
}

/// Writes the names of lines, each beside its colour.
fn name(area: &Area<'_>, lines: &[Line]) -> Drawn {
    for (number, (line, colour)) in lines.iter().zip(COLOURS).enumerate() {
        let top = 8 + LINE * number as i32;
        let middle = top + LINE / 2;
        let stroke = vec![(16, middle), (40, middle)];
        area.draw(&PathElement::new(stroke, colour.stroke_width(3)))?;
        let style = FONT.into_font().color(&colour);
        area.draw(&Text::new(line.name.as_str(), (48, top), style))?;
    }
    Ok(())
}

/// Draws the lines.
fn draw<'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    lines: &[Line],
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    for (line, colour) in lines.iter().zip(COLOURS) {
        let points = line.points.iter().copied();
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
    }
    Ok(())
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
}
