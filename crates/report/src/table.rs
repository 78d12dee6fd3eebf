//! A table of texts, as Markdown or aligned for a terminal.

use std::fmt::Write;

/// Rows under a header. Every row has as many cells as the header.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(cells.len(), self.header.len());
        self.rows.push(cells);
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As Markdown, with a blank line behind it.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(&self.header);
        text.push_str(&"|---".repeat(self.header.len()));
        text.push_str("|\n");
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text.push('\n');
        text
    }

    /// For a terminal: columns two blanks apart, numbers to the right, the last column to the left.
    pub(crate) fn aligned(&self) -> String {
        let last = self.header.len().saturating_sub(1);
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| lines().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in lines() {
            for (column, cell) in line.iter().enumerate() {
                let width = widths[column];
                let _ = if column == last {
                    writeln!(text, "{cell}")
                } else {
                    write!(text, "{cell:>width$}  ")
                };
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_even_with_signs_outside_ascii() {
        let mut table = Table::new(["NP", "AU %", "verdict"]);
        table.row(["1", "96.48 ± 0.08", "storage-bound"]);
        table.row(["16", "–", "–"]);
        assert_eq!(
            table.aligned(),
            "NP          AU %  verdict\n 1  96.48 ± 0.08  storage-bound\n16             –  –\n"
        );
        assert!(table.markdown().starts_with("| NP | AU % | verdict |\n|---|---|---|\n| 1 |"));
    }
}
