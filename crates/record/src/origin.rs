//! The run to which the rows of a Parquet file belong: constant columns, and one entry of the file's
//! metadata.
//!
//! Only facts that are the same each time the run is repeated: the same scenario and seed give the same
//! bytes. So the run's id is not among them; it is the name of the record's directory.

use std::collections::BTreeMap;

use schema::Summary;
use serde::Serialize;

use crate::table::{Column, ColumnKind};

/// Facts that identify a run among others.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Origin {
    scenario: String,
    engine: String,
    kernel: Option<String>,
    variant: Option<String>,
    set: BTreeMap<String, String>,
    sweep: BTreeMap<String, String>,
    repeat: u32,
    seed: u64,
}

/// A column with the same cell in each row.
pub(crate) struct Constant {
    pub(crate) column: Column,
    pub(crate) cell: Cell,
}

/// The cell of a [`Constant`].
pub(crate) enum Cell {
    Int(i64),
    Text(Option<String>),
}

impl Origin {
    /// The origin of the first run of `summary`.
    pub(crate) fn of(summary: &Summary) -> Self {
        let Some(run) = summary.runs.first() else {
            return Origin { scenario: summary.scenario.clone(), ..Origin::default() };
        };
        Origin {
            scenario: summary.scenario.clone(),
            engine: run.engine.name().to_owned(),
            kernel: run.kernel.clone(),
            variant: run.variant.clone(),
            set: run.set.clone(),
            sweep: run.sweep.clone(),
            repeat: run.repeat,
            seed: run.seed,
        }
    }

    /// As one JSON object.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The constant columns.
    pub(crate) fn constants(&self) -> Vec<Constant> {
        let text = |name, doc, text: Option<String>| Constant {
            column: Column { name, kind: ColumnKind::OptionalText, doc },
            cell: Cell::Text(text),
        };
        let fields = |fields: &BTreeMap<String, String>| {
            (!fields.is_empty()).then(|| serde_json::to_string(fields).unwrap_or_default())
        };
        vec![
            text("scenario", "the scenario's name", Some(self.scenario.clone())),
            text("engine", "the engine that made the run", Some(self.engine.clone())),
            text("kernel", "the kernel that was simulated or booted as a guest", self.kernel.clone()),
            text("variant", "the scenario's variant", self.variant.clone()),
            text("set", "fields changed by --set, as a JSON object", fields(&self.set)),
            text("sweep", "swept fields and their values, as a JSON object", fields(&self.sweep)),
            Constant {
                column: Column { name: "repeat", kind: ColumnKind::Int, doc: "which repeat, from 1" },
                cell: Cell::Int(self.repeat.into()),
            },
        ]
    }
}
