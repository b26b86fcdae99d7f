// One file of another trainer while it is converted. Its keys are declared as foreign keys in a table, its values are
// set through Translation, and so have the types, ranges and messages of our options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/schema.h"
#include "engine/config/translate/translation.h"

namespace trainer::config {

/// A key with the meaning of an option of ours.
struct SameKey {
  const char* key;
  const char* to;
};

/// `keys` as foreign keys, for a dialect's table.
Entries same_keys(const std::vector<SameKey>& keys);

class Source {
 public:
  Source(const Node& document, std::string folder, Draft& draft)
      : draft_(draft), translation_(draft), document_(document), folder_(std::move(folder)) {}

  /// Reads `map` by `table`, with `prefix` before its keys. Keys that only TrainingArguments has are taken as such if
  /// `training` is true; the remaining ones are unknown.
  void read(const Node& map, const Entries& table, const std::string& prefix, bool training);

  const Node& document() const { return document_; }
  Draft& draft() { return draft_; }

  /// The key as it was written. Null if it wasn't.
  GivenKey key(const std::string& path) const { return translation_.foreign(path); }
  /// True if the key is there and requests something.
  bool asks(const std::string& path) const;
  bool is_true(const std::string& path) const;
  /// The lowercase text of a scalar; "" otherwise.
  std::string word(const std::string& path) const;

  /// Sets option `to`. A value that the option's list of values lacks is not honored, and its default stays.
  void set(const GivenKey& from, const std::string& to, const Node& value);
  void set(const std::string& path, const std::string& to) { set_if_given(path, to); }
  void set(const std::string& path, const std::string& to, const std::string& value) {
    set(key(path), to, Node::scalar(value));
  }
  /// Every key of `keys` that is there.
  void set_all(const std::vector<SameKey>& keys);
  /// Sets `to` to what the program uses without the key `name`.
  void assume(const std::string& name, const std::string& to, const std::string& value);
  /// The same for an argument of TrainingArguments, whose subclass has another default.
  void assume_argument(const std::string& name, const std::string& to, const std::string& value);
  /// Hands a key to TrainingArguments' translation, as `training.name`.
  void pass(const std::string& name, const Node& value);

  void not_honored(const std::string& path, const std::string& reason) { not_honored(key(path), reason); }
  void not_honored(const GivenKey& from, const std::string& reason);
  /// The whole file: what it asks for is another kind of training.
  void refuse(const std::string& path, const std::string& reason) { refuse(key(path), reason); }

  /// `text` as a path for the new file.
  std::string path(const std::string& text) const;

  /// Lists the keys of `table` that were read with `prefix` and have no effect, and refuses the unsupported ones.
  void list_idle(const Entries& table, const std::string& prefix);

  /// Translates what was handed to TrainingArguments, then lists the known keys that have no effect.
  void finish(const Entries& table);

  /// `from` leaves it to the data how records are read. `advice` says what to write here.
  void leave_open(const GivenKey& from, const std::string& advice);

  std::vector<Note> unknown, undecided;

 private:
  void set_if_given(const std::string& path, const std::string& to);
  void refuse(const GivenKey& from, const std::string& reason);
  void pass_deepspeed(const Node& value);
  void report_to(const Node& value);

  Draft& draft_;
  Translation translation_;
  const Node& document_;
  std::string folder_;
  Node training_ = Node::map();
};

/// Sets option `to`, which names files, to the list `paths`.
void set_paths(Source& source, const GivenKey& from, const std::string& to, const Node& paths);

namespace axolotl {
const Entries& table();
void convert(Source& source);
void convert_data(Source& source);  // the part of it about samples
}  // namespace axolotl

/// The two commands have the keys about models and datasets in common.
namespace trl {
const Entries& common_table();
/// `known`, and the keys that the table of one of our sections knows without honoring them.
Entries with_foreign_keys(const Entries& known, const Entries& section);
const Entries& sft_table();
const Entries& dpo_table();
void convert_sft(Source& source);
void convert_dpo(Source& source);
void convert_common(Source& source, const char* learning_rate);
void convert_model(Source& source);
void convert_data(Source& source);
/// TRL reads a record by its columns, which a file doesn't name. `advice`: what this job reads, and how to change it.
void leave_columns_open(Source& source, const std::string& advice);
}  // namespace trl

namespace llama_factory {
const Entries& table();
void convert(Source& source);
void convert_data(Source& source);
}  // namespace llama_factory

}  // namespace trainer::config
