// Converts other trainers' files to ours: TrainingArguments, axolotl's and LLaMA-Factory's.
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
  const char* only;     // the key that tells this program's files from the others'; "": none
  const Entries& (*table)();
  void (*translate)(Source& source);
};

/// All of them. The last one has no key of its own.
const std::vector<Dialect>& dialects();

struct Conversion {
  const Dialect* dialect;
  Node document;                  // the options that the file sets, for file_text()
  std::vector<Note> translated;   // keys that set our options
  std::vector<Note> not_honored;  // known keys that request something else; the reason, and what to do instead
  std::vector<Note> unknown;      // keys that the dialect doesn't have
};

/// Converts `file`. `from`: the name of a dialect; "" recognizes it. Relative paths that exist in the working folder
/// are rewritten relative to `folder`, that of the new file; others stay as they are.
/// Errors: ConfigProblems with all problems; ConfigError if the file can't be read or no dialect has its keys.
Conversion convert(const std::string& file, const std::string& from, const std::string& folder);

/// Markdown: every key of every dialect, and what happens to it; docs/converting.md holds it.
std::string conversion_tables();

}  // namespace trainer::config
