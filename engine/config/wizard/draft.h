// A configuration during the wizard: its meaning, together with the document that is written at the end. Keys that are
// not asked for, or are kept, remain in the document as the user wrote them, including ${VAR} and other spellings.
#pragma once

#include <string>

#include "engine/config/document/document.h"
#include "engine/config/plan/reader.h"
#include "engine/config/schema.h"

namespace trainer::config {

struct WizardDraft {
  Config config;
  Node document = Node::map();
  bool has_comments = false;  // in the file it was read from

  /// True if the document contains `path` ("fsdp_config.fsdp_version").
  bool has(const std::string& path) const;
  /// The value of the option `path`.
  Node value(const std::string& path);
  /// Writes the option's value into the document if it is absent.
  void hold(const std::string& path);
  /// Sets the option. Returns "", or why the value is refused; in that case nothing changes.
  std::string set(const std::string& path, const Node& value);
  /// The same for values that are known to be valid; an equal value that is present keeps its spelling.
  void assign(const std::string& path, const Node& value);
  /// Writes a key that no option of ours holds.
  void put(const std::string& path, const Node& value);
  /// Removes the key or section from the document, and resets its options to their defaults.
  void erase(const std::string& path);

 private:
  /// Updates the document for an option whose value was `before`; an unchanged value keeps its spelling.
  void write(const std::string& path, const Place& place, const Node& before);
};

/// The draft for an existing file. Errors: ConfigError if it can't be read or is invalid.
WizardDraft read_draft(const std::string& file);
/// Applies the answers in `file` (a part of a configuration) to `draft`. Errors: ConfigError.
void apply_answers(const std::string& file, WizardDraft& draft);

/// The keys that Accelerate always writes.
enum class Frame {
  kWizard,   // as `accelerate config` does
  kDefaults  // as `accelerate config default` and `update` do
};
/// Adds the missing ones to the document.
void add_frame(Frame frame, WizardDraft& draft);

/// A typed answer as the node that a file would have. Commas separate the items of a list.
Node node_of_answer(const Entry& entry, const std::string& answer);
/// The reverse.
std::string typed(const Node& node);

}  // namespace trainer::config
