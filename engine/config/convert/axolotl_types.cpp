#include "engine/config/convert/axolotl_types.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace trainer::config::axolotl {
namespace {

const std::string kTask =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
const std::string kTaskWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
    "response that appropriately completes the request.";
const std::string kChatTask =
    "Below is an instruction from a USER that describes a task. The ASSISTANT writes a response that appropriately and "
    "concisely completes the request.\n\n";
const std::string kContext = "Use the following contextual information to concisely answer the question.\n";

/// The prompt styles `instruct` and `chat`, for a system text and an instruction.
std::string instruct(const std::string& system, const std::string& instruction) {
  return fmt::format("{}\n\n### Instruction:\n{}\n\n### Response:\n", system, instruction);
}
std::string chat(const std::string& system, const std::string& instruction) {
  const std::string user = fmt::format("USER: {}\nASSISTANT:", instruction);
  return system.empty() ? user : fmt::format("SYSTEM: {}\n{}", system, user);
}

/// A chat template whose turns begin with these texts.
std::string turns(const std::string& system, const std::string& user, const std::string& reply) {
  return fmt::format(
      "{{{{ bos_token }}}}{{% for message in messages %}}{{% if message.role == 'assistant' %}}{{% generation %}}"
      "{{{{ message.content ~ eos_token }}}}{{% endgeneration %}}{{% elif message.role == 'user' %}}"
      "{{{{ '{1}' ~ message.content ~ '{2}' }}}}{{% else %}}{{{{ {0} }}}}{{% endif %}}{{% endfor %}}",
      system, user, reply);
}
const std::string kChatTurns = turns(R"('SYSTEM: ' ~ message.content ~ '\n')", "USER: ", R"(\nASSISTANT:)");
const std::string kPhiTurns =
    turns(R"('<|system|>\n' ~ message.content ~ '<|end|>\n')", R"(<|user|>\n)", R"(<|end|>\n<|assistant|>\n)");

constexpr const char* kInput =
    "only records without `input` give exactly its samples: here, an input follows the instruction after an empty line";

struct TextType {
  const char* name;
  std::string source, target;
};

/// A prompt without optional parts, so that templates of columns give the same samples.
const std::vector<TextType>& text_types() {
  static const std::vector<TextType> all{
      {"jeopardy", instruct(kTaskWithInput, "{question}\n\n### Input:\n{category}"), "what is {answer}"},
      {"oasst", instruct(kTask, "{INSTRUCTION}"), "{RESPONSE}"},
      {"summarizetldr", chat("", "Summarize the following article as a TL;DR.\n{article}"), "{summary}"},
      {"alpaca_chat.load_qa", chat(kChatTask, "{question}"), "{answer}"},
      {"alpaca_chat.load_camel_ai", chat(kChatTask, "{message_1}"), "{message_2}"},
      {"context_qa", chat(kContext, "{article}\n===\n{question}"), "{answer}"},
      {"context_qa.load_v2", "Context: {context}\nQuestion: {question}\n", "Answer: {answer}"},
      {"alpaca_w_system.load_open_orca", "### System:\n{system_prompt}\n### Human:\n{question}\n### Assistant:\n",
       "{response}"},
      {"alpaca_w_system.load_open_orca_chatml",
       "<|im_start|>system\n{system_prompt}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n",
       "{response}"}};
  return all;
}

struct DialogueType {
  const char* name;
  std::string chat_template, system;
};

/// Records with `instruction`, `input` and `output`.
const std::vector<DialogueType>& dialogue_types() {
  static const std::vector<DialogueType> all{{"alpaca", "alpaca", kTask},
                                             {"alpaca:instruct", "alpaca", kTask},
                                             {"alpaca:chat", kChatTurns, kTask},
                                             {"alpaca:chatml", "chatml", kTask},
                                             {"alpaca:phi", kPhiTurns, kTask},
                                             {"alpaca_chat", kChatTurns, kTask},
                                             {"alpaca_instruct", "alpaca", kTask},
                                             {"alpaca_chat.load_no_prompt", kChatTurns, ""},
                                             {"alpaca_instruct.load_no_prompt", "alpaca", ""}};
  return all;
}

using Reason = std::pair<const char*, const char*>;

struct PairType {
  const char* name;  // after chatml. or llama3.
  const char *dialogue, *source, *target, *rejected;
};

/// Pairs of replies; a column `system` precedes the question.
constexpr PairType kPairTypes[] = {{"intel", "prompt", "question", "chosen", "rejected"},
                                   {"icr", "prompt", "input", "chosen", "rejected"},
                                   {"prompt_pairs", "prompt", "prompt", "chosen", "rejected"},
                                   {"argilla", "prompt", "instruction", "chosen_response", "rejected_response"},
                                   {"argilla_chat", "messages", "", "chosen", "rejected"},
                                   {"ultra", "messages", "", "chosen", "rejected"}};
constexpr const char* kPairTemplates[] = {"chatml", "llama3"};

/// Those that data.source, data.target and data.dialogue can't express.
const std::vector<Reason>& reasons() {
  const char* const optional =
      "its input may be missing; write data.dialogue: prompt, and templates of columns in data.source and data.target";
  const char* const segments = "which parts are learned can't be stored in a record; data.learn selects the turns";
  const char* const computed = "its prompt is computed from lists; write the finished texts into two columns";
  const char* const system =
      "a column with the system text is not read; write it into data.source, a template of columns";
  const char* const preferences = "the loss of a run is the next token's or that of pairs; there are no rewards";
  static const std::vector<Reason> all{{"gpteacher", optional},
                                       {"alpaca_chat.load_concise", optional},
                                       {"reflection", computed},
                                       {"explainchoice", computed},
                                       {"concisechoice", computed},
                                       {"context_qa.load_404", "its reply is the same for all records"},
                                       {"creative_acr.load_answer", computed},
                                       {"creative_acr.load_critique", computed},
                                       {"creative_acr.load_revise", computed},
                                       {"metharme",
                                        "it ends a reply with several end-of-sequence tokens; write "
                                        "data.source: prompt and data.target: generation for one"},
                                       {"pygmalion", "its turns have role and value; rename value to content"},
                                       {"llama2_chat", "write data.dialogue: sharegpt and data.chat_template: llama2"},
                                       {"orcamini", system},
                                       {"alpaca_w_system", system},
                                       {"alpaca_w_system.load_instruct", system},
                                       {"alpaca_w_system.load_chat", system},
                                       {"input_output", segments},
                                       {"stepwise_supervised", preferences},
                                       {"bradley_terry", preferences},
                                       {"_synthetic", "no samples are made up; give files"}};
  return all;
}

using Replacements = std::vector<std::pair<std::string, std::string>>;

/// `text` with each placeholder replaced; what was put in is not looked at again.
std::string replaced(const std::string& text, const Replacements& replacements) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto here = std::find_if(replacements.begin(), replacements.end(), [&](const auto& each) {
      return text.compare(at, each.first.size(), each.first) == 0;
    });
    out += here == replacements.end() ? std::string(1, text[at]) : here->second;
    at += here == replacements.end() ? 1 : here->first.size();
  }
  return out;
}

std::string text_at(const Node& map, const char* key, const std::string& otherwise) {
  const Node* const value = map.find(key);
  return value && value->is_scalar() && !value->is_null() ? value->text : otherwise;
}

}  // namespace

TypeReading reading_of_type(const std::string& type) {
  for (const auto& [name, source, target] : text_types())
    if (type == name) return {{.source = source, .target = target}, "", ""};
  for (const auto& [name, chat_template, system] : dialogue_types())
    if (type == name) return {{.dialogue = "alpaca", .chat_template = chat_template, .system = system}, "", kInput};
  for (const auto& [name, reason] : reasons())
    if (type == name || type.starts_with(std::string(name) + ".")) return {{}, reason, ""};
  return {{},
          "its columns are not known here; write data.source and data.target, which can be templates of columns, or "
          "data.dialogue",
          ""};
}

TypeReading reading_of_pair_type(const std::string& type) {
  for (const char* const chat_template : kPairTemplates)
    for (const PairType& pair : kPairTypes)
      if (type == fmt::format("{}.{}", chat_template, pair.name))
        return {{.dialogue = pair.dialogue,
                 .source = pair.source,
                 .target = pair.target,
                 .chat_template = chat_template,
                 .rejected = pair.rejected},
                "",
                ""};
  return {
      {}, "write data.source, data.target and data.rejected, which can be templates of columns, or data.dialogue", ""};
}

TypeReading reading_of_own_type(const Node& keys) {
  const std::string plain = text_at(keys, "no_input_format", "{instruction} "), full = text_at(keys, "format", plain);
  const bool optional = full.find("{input}") != std::string::npos;
  const std::string system = replaced(text_at(keys, "system_prompt", ""), {{"{", "{{"}, {"}", "}}"}});
  const auto column = [&](const char* key, const char* otherwise) { return "{" + text_at(keys, key, otherwise) + "}"; };
  std::string source = replaced(
      optional ? full : plain,
      {{"{input}", column("field_input", "input")}, {"{instruction}", column("field_instruction", "instruction")}});
  if (!system.empty()) source = replaced(text_at(keys, "system_format", "{system}"), {{"{system}", system}}) + source;
  std::string differs;
  if (optional && plain != full) differs = "`format` is used for all records, so each must have the input's column";
  if (keys.find("field_system"))
    differs +=
        (differs.empty() ? "" : "; ") + std::string("field_system is not read: write the column into data.source");
  return {{.source = source, .target = column("field_output", "output")}, "", differs};
}

std::string type_table() {
  std::string table;
  for (const TextType& type : text_types())
    table += fmt::format("| `{}` | data.source and data.target, templates of its columns |\n", type.name);
  for (const DialogueType& type : dialogue_types())
    table += fmt::format("| `{}` | data.dialogue: alpaca, data.chat_template{} |\n", type.name,
                         type.system.empty() ? "" : ", data.system");
  for (const char* const chat_template : kPairTemplates)
    for (const PairType& pair : kPairTypes)
      table += fmt::format("| `{}.{}` | with rl: dpo: data.dialogue: {}, data.chat_template: {}, columns |\n",
                           chat_template, pair.name, pair.dialogue, chat_template);
  for (const auto& [name, reason] : reasons()) table += fmt::format("| `{}` | not honored: {} |\n", name, reason);
  return table;
}

}  // namespace trainer::config::axolotl
