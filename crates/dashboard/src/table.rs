//! Table of the embedded files, sorted by path; a test compares it with the folder.

/// Embeds files by their paths in `assets/`.
macro_rules! embed {
    ($($path:literal,)*) => {
        &[$(($path, include_bytes!(concat!("../assets/", $path)) as &[u8]),)*]
    };
}

/// Files by path.
pub const ASSETS: &[(&str, &[u8])] = embed![
    "app.js", "icon.svg", "index.html", "lib/align.js", "lib/api.js", "lib/filter.js",
    "lib/format.js", "lib/html.js", "lib/keys.js", "lib/memory.js", "lib/reasons.js",
    "lib/route.js", "lib/scale.js", "lib/stream.js", "lib/text.js", "lib/theme.js",
    "pages/compare.js", "pages/datasets.js", "pages/evaluator.js", "pages/evaluators.js",
    "pages/inspect.js", "pages/live.js", "pages/overview.js", "pages/runs.js", "pages/sessions.js",
    "pages/setup.js", "pages/tools.js", "pages/trace.js", "parts.css", "parts/calls.js",
    "parts/chart.js", "parts/columns.js", "parts/content.js", "parts/figure.js", "parts/filter.js",
    "parts/help.js", "parts/menu.js", "parts/meter.js", "parts/people.js", "parts/shell.js",
    "parts/states.js", "parts/table.js", "parts/value.js", "parts/verdict.js", "parts/verdicts.js",
    "style.css", "vendor/hooks.js", "vendor/htm.js", "vendor/preact.js",
];
