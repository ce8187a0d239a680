//! Rephrases library messages for the command line.
//!
//! Replaces Python arguments with options and environment variables.

/// Arguments with an option of the same name.
const NAMES: [&str; 8] =
    ["chunks", "shards", "region", "overwrite", "max_memory", "order", "threads", "variables"];

/// Advice from the library, and its equivalent on the command line.
const ADVICE: [(&str, &str); 17] = [
    ("write CSV, or stored numbers (raw)", "use --csv or --raw"),
    ("write CSV instead", "use --csv"),
    ("stored numbers, raw", "use --raw"),
    ("set overwrite to", "pass --overwrite to"),
    ("pass skip_unsupported=True", "pass --skip-unsupported"),
    ("pass storage_options={\"anon\": True}", "pass --anon"),
    ("pass storage_options={\"account_name\": …}", "set AZURE_STORAGE_ACCOUNT"),
    (
        "Pass storage_options={\"region\": …}, or \"endpoint_url\" for",
        "Set AWS_REGION, or AWS_ENDPOINT_URL for",
    ),
    ("pass storage_options={\"region\": …}", "pass --storage-option region=…"),
    (
        "name a profile, or pass the credentials in storage_options",
        "or name a profile with --profile, or pass --storage-option",
    ),
    (
        "pass credentials in storage_options",
        "pass --storage-option KEY=VALUE, or set the environment variables of the provider",
    ),
    ("; with storage_options={\"unconditional\": \"refuse\"} such changes are errors", ""),
    ("setting external_files = ", "--external-files "),
    ("verify_checksums = false", "HYPERSLAB_VERIFY_CHECKSUMS=0"),
    ("run(resume=True), or hyperslab copy --resume", "--resume"),
    ("plan.discard()", "CopyPlan.discard in Python"),
    ("source: with target_region", "SRC: with --target-region"),
];

/// Rephrases a message for the command line.
pub fn in_options(text: &str) -> String {
    let mut text = text.to_owned();
    for (there, here) in ADVICE {
        text = text.replace(there, here);
    }
    // The command opens what exists.
    if let Some((before, _)) = text.split_once("; to create one, pass mode=") {
        text = before.to_owned();
    }
    if let Some((before, rest)) = text.split_once("pass storage_options={\"region\": \"")
        && let Some((region, after)) = rest.split_once("\"}")
    {
        text = format!("{before}pass --storage-option region={region}{after}");
    }
    match text.split_once(": ") {
        Some(("compressor" | "compressors", rest)) => format!("--codec: {rest}"),
        Some(("zarr_format", rest)) => format!("--format: {rest}"),
        Some((name, rest)) if NAMES.contains(&name) => format!("--{}: {rest}", name.replace('_', "-")),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::in_options;

    #[test]
    fn messages_speak_of_options() {
        for (there, here) in [
            ("chunks: 1 size is given", "--chunks: 1 size is given"),
            ("max_memory: too little", "--max-memory: too little"),
            ("compressor: no", "--codec: no"),
            ("array 'a': set overwrite to replace", "array 'a': pass --overwrite to replace"),
            (
                "array 'a': no; to leave it out, pass skip_unsupported=True",
                "array 'a': no; to leave it out, pass --skip-unsupported",
            ),
            (
                "The bucket is in region 'x': pass storage_options={\"region\": \"x\"}",
                "The bucket is in region 'x': pass --storage-option region=x",
            ),
            ("For public data pass storage_options={\"anon\": True}", "For public data pass --anon"),
            (
                "'/b' is outside (setting external_files = \"same-directory\"; \"anywhere\" allows it)",
                "'/b' is outside (--external-files \"same-directory\"; \"anywhere\" allows it)",
            ),
            ("lost; with storage_options={\"unconditional\": \"refuse\"} such changes are errors", "lost"),
            (
                "array 'a': its elements are structures; write CSV instead",
                "array 'a': its elements are structures; use --csv",
            ),
            ("group 'chunks': damaged", "group 'chunks': damaged"),
            ("no group at 'a'; to create one, pass mode='a', or use create_group", "no group at 'a'"),
            (
                "b: Go on: run(resume=True), or hyperslab copy --resume. Or: plan.discard()",
                "b: Go on: --resume. Or: CopyPlan.discard in Python",
            ),
        ] {
            assert_eq!(in_options(there), here);
        }
    }
}
