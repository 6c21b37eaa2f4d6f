//! Control tokens of chat templates by model family, in lower case.
//!
//! A tokenizer may read such a text as the token anywhere, so the first character of each is
//! escaped in a record. Tokens with a common prefix are listed by it.

/// Families with their tokens or prefixes, without those of earlier families.
pub(super) const FAMILIES: [(&str, &[&str]); 17] = [
    ("ChatML, Llama 3, Phi, Command, Harmony, Granite", &["<|", "|>"]),
    ("Exaone", &["[|", "|]"]),
    ("DeepSeek, Hunyuan", &["<\u{ff5c}", "\u{ff5c}>"]),
    ("Llama 2", &["<s>", "</s>", "<unk>", "[inst", "[/inst", "<<sys", "<</sys"]),
    (
        "Mistral",
        &[
            "[system_prompt", "[/system_prompt", "[available_tools", "[/available_tools",
            "[tool_calls", "[tool_results", "[/tool_results", "[tool_content", "[/tool_content",
            "[call_id]", "[args]", "[think]", "[/think]", "[img]", "[prefix]", "[middle]",
            "[suffix]",
        ],
    ),
    ("Gemma", &["<bos>", "<eos>", "<pad>", "<start_of_", "<end_of_"]),
    (
        "GLM",
        &[
            "[gmask]", "[smask]", "[mask]", "<sop>", "<eop>", "<arg_key>", "</arg_key>",
            "<arg_value>", "</arg_value>",
        ],
    ),
    ("T5, Nemotron", &["<extra_id_", "<special_"]),
    (
        "Models that think",
        &[
            "<think", "</think", "<thought", "</thought", "<reasoning>", "</reasoning>",
            "<reflection>", "</reflection>",
        ],
    ),
    (
        "Hermes, Qwen",
        &[
            "<tool_call", "</tool_call", "<tool_response", "</tool_response", "<tools>",
            "</tools>", "<function=", "</function>", "<parameter=", "</parameter>",
            "<function_call", "</function_call",
        ],
    ),
    ("Command R", &["<bos_token>", "<eos_token>", "<eop_token>", "<pad_token>", "<unk_token>"]),
    ("Baichuan, InternLM", &["<reserved_", "<eoh>", "<eoa>", "[unused_token_"]),
    ("Kimi", &["[bos]", "[eos]", "[eot]", "[pad]", "[unk]"]),
    ("BERT, ERNIE", &["[cls]", "[sep]", "<cls>", "<sep>", "<mask>", "<mask:"]),
    ("Seed", &["<seed:", "</seed:"]),
    ("MiniMax", &["]~", "[e~[", "<minimax:", "</minimax:"]),
    (
        "StarCoder",
        &[
            "<fim_", "<file_sep>", "<repo_name>", "<reponame>", "<filename>", "<gh_stars>",
            "<issue_", "<commit_", "<jupyter_", "<empty_output>",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judged::escape::write_string;
    use spanscore_base::value::json;

    /// Written between two letters, in both cases, a token is no text of the record any more, and
    /// is what it was for a reader of JSON.
    fn check(token: &str) {
        for token in [token.to_owned(), token.to_uppercase()] {
            let text = format!("a{token}b");
            let mut out = String::new();
            write_string(&text, &mut out);
            assert!(!out.contains(&token), "{out}");
            let read = json::parse(&out).expect("JSON");
            assert_eq!(read.as_str(), Some(&*text));
        }
    }

    #[test]
    fn the_tokens_of_each_family_are_escaped() {
        for (name, tokens) in FAMILIES {
            assert!(!name.is_empty() && !tokens.is_empty(), "{name}");
            tokens.iter().for_each(|token| check(token));
        }
    }

    #[test]
    fn tokens_as_models_have_them_are_escaped() {
        for token in [
            "<|im_start|>", "<|eot_id|>", "<|start_header_id|>", "<|END_OF_TURN_TOKEN|>",
            "<|channel|>", "[|system|]", "[|endofturn|]", "<\u{ff5c}User\u{ff5c}>", "[INST]",
            "[/INST]", "<<SYS>>", "[TOOL_RESULTS]", "[AVAILABLE_TOOLS]", "[SYSTEM_PROMPT]",
            "[THINK]", "<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>",
            "[gMASK]<sop>", "<extra_id_1>", "<SPECIAL_10>", "<think>", "</think>", "<thinking>",
            "<tool_call>", "</tool_response>", "<function=search>", "<BOS_TOKEN>",
            "<reserved_106>", "[UNUSED_TOKEN_146]", "[EOS]", "[CLS]", "<seed:bos>", "]~b]",
            "]~!b[", "[e~[", "<minimax:tool_call>", "<fim_prefix>",
        ] {
            let mut out = String::new();
            write_string(token, &mut out);
            assert!(!out.contains(token), "{out}");
        }
    }
}
