//! `streams = 4` of a flow, written out: four flows of one stream each, called `NAME-1` to `NAME-4`.
//!
//! Done on the tree, after all layers and before anything is decoded, so that layers address the flow by the name it
//! has in the file and each stream knows its place there.

use crate::{
    error::Problems,
    tree::{Node, Table, Value},
};

/// More than a machine runs with sense; a thousand threads are a mistyped number.
const MAX_STREAMS: i128 = 1000;

/// Writes out the streams of every flow.
pub(crate) fn write_out_streams(root: &mut Table, problems: &mut Problems) {
    let Some(Value::List(flows)) = root.get_mut("flows").map(|n| &mut n.value) else { return };
    *flows = std::mem::take(flows).into_iter().flat_map(|flow| streams(flow, problems)).collect();
}

fn streams(mut flow: Node, problems: &mut Problems) -> Vec<Node> {
    let Some(count) = flow.table().and_then(|t| t.get("streams")) else { return vec![flow] };
    let (span, value) = (count.span, count.value.clone());
    if flow.table().and_then(|t| t.get("kind")).and_then(Node::text).is_some_and(|kind| kind != "tcp") {
        // Its reader says that there is no such key.
        return vec![flow];
    }
    if let Some(table) = flow.table_mut() {
        table.remove("streams");
    }
    let count = match value {
        Value::Integer(count) if (1..=MAX_STREAMS).contains(&count) => count,
        _ => {
            let message = "\"streams\" is no number of streams";
            problems.add_help(span, message, format!("write a whole number from 1 to {MAX_STREAMS}"));
            1
        }
    };
    if count == 1 {
        return vec![flow];
    }
    let named = |n: i128| {
        let mut stream = flow.clone();
        if let Some(name) = stream.table_mut().and_then(|t| t.get_mut("name"))
            && let Value::Text(text) = &mut name.value
        {
            *text = format!("{text}-{n}");
        }
        stream
    };
    (1..=count).map(named).collect()
}
