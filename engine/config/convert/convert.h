// Converts other trainers' files to ours: TrainingArguments, axolotl's, TRL's and LLaMA-Factory's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/document/document.h"
#include "engine/config/plan/plan.h"
#include "engine/config/schema.h"

namespace trainer::config {

class Source;

/// What happens to the keys of one program's files.
struct Dialect {
  const char* name;     // as --from has it
  const char* program;  // for messages: "LLaMA-Factory"
  const Entries& (*table)();
  void (*translate)(Source& source);
};

/// All of them.
const std::vector<Dialect>& dialects();

struct Conversion {
  const Dialect* dialect;
  std::vector<std::string> recognized_by;  // the keys that told whose file it is; empty: --from, or all of its keys
  Node document;                           // the options that the file sets, for file_text()
  std::vector<Note> translated;            // keys that set our options
  std::vector<Note> not_honored;           // known keys that request something else; the reason, and what to do instead
  std::vector<Note> unknown;               // keys that the dialect doesn't have
  std::vector<Note> undecided;             // what the other program reads from the data, and how to write it here
};

/// Converts `file`. `from`: the name of a dialect; "" recognizes it. Relative paths that exist in the working folder
/// are rewritten relative to `folder`, that of the new file; others stay as they are.
/// Errors: ConfigProblems with all problems; ConfigError if the file can't be read, or if its keys don't tell whose it
/// is.
Conversion convert(const std::string& file, const std::string& from, const std::string& folder);

/// Markdown: every key of every dialect, and what happens to it; docs/converting.md holds it.
std::string conversion_tables();

}  // namespace trainer::config
