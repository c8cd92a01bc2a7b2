//! Expands `streams = 4` of a flow to four flows of one stream each, named `NAME-1` to `NAME-4`.
//!
//! Works on the tree, after all layers and before decoding, so that layers address the flow by its name in
//! the file and each stream has the flow's position there.

use crate::{
    error::Problems,
    tree::{Node, Table, Value},
};

/// Maximum number of streams. More threads are most likely a typing error.
const MAX_STREAMS: i128 = 1000;

/// Expands the streams of every flow.
pub(crate) fn expand_streams(root: &mut Table, problems: &mut Problems) {
    let Some(Value::List(flows)) = root.get_mut("flows").map(|n| &mut n.value) else { return };
    *flows = std::mem::take(flows).into_iter().flat_map(|flow| streams(flow, problems)).collect();
}

fn streams(mut flow: Node, problems: &mut Problems) -> Vec<Node> {
    let Some(count) = flow.table().and_then(|t| t.get("streams")) else { return vec![flow] };
    let (span, value) = (count.span, count.value.clone());
    if flow.table().and_then(|t| t.get("kind")).and_then(Node::text).is_some_and(|kind| kind != "tcp") {
        // The decoder reports the unknown key.
        return vec![flow];
    }
    if let Some(table) = flow.table_mut() {
        table.remove("streams");
    }
    let count = match value {
        Value::Integer(count) if (1..=MAX_STREAMS).contains(&count) => count,
        _ => {
            let message = "\"streams\" is not a number of streams";
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
