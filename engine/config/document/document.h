// A YAML document as a tree of text: every scalar keeps what was written and where. What the text means (a number, a
// name, a truth) is for the option that reads it, so YAML's own guesses (`no` is false, `1e8` is text) never matter.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace trainer::config {

/// Where something was written. Line and column count from 1; 0: the source has no lines (a flag, say).
struct Mark {
  std::shared_ptr<const std::string> source;  // null: nowhere, a default
  int line = 0;
  int column = 0;
};

/// "job.yaml:12:3", "--set", or "default".
std::string to_string(const Mark& mark);

/// Later ones win over earlier ones.
enum class Layer { kDefault, kFile, kEnvironment, kFlag };
Layer layer_of(const Mark& mark);
/// How the source of an environment variable's mark begins; its name follows.
inline constexpr const char* kEnvironmentSource = "environment ";

struct Member;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;             // scalars; null: as it was written, "" for nothing at all
  bool quoted = false;          // scalars: written in quotes (or as a block), so never a number or a truth
  std::vector<Node> items;      // lists
  std::vector<Member> members;  // maps, in the order written
  Mark mark;
  std::string comment;  // written behind the value

  static Node null(std::string text);
  static Node scalar(std::string text, bool quoted = false);
  static Node list(const std::vector<std::string>& texts);
  static Node map();

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }

  const Node* find(const std::string& key) const;
  /// The value of `key`, added at the end when it is not there.
  Node& operator[](const std::string& key);
  void erase(const std::string& key);
};

struct Member {
  std::string key;
  Node value;
  Mark mark;  // of the key
};

/// The value on one line, for messages.
std::string text_of(const Node& node);

/// True when both hold the same values, wherever and however they were written.
bool same(const Node& a, const Node& b);

/// How much is read before a document is refused as no configuration.
inline constexpr std::size_t kMaxBytes = 1 << 20;
inline constexpr int kMaxNodes = 20'000;
inline constexpr int kMaxDepth = 32;
inline constexpr std::size_t kLongestKey = 200;  // YAML's own limit is 1024, escapes and quotes included

class Problems;

/// `key`, at `mark`, is among `members` already: a warning where `value` is the same there, else a problem.
void report_twice(const std::vector<Member>& members, const std::string& key, const Node& value, const Mark& mark,
                  Problems& problems);

/// Reads one YAML document. Of keys given twice, which `problems` hears of, the first one counts.
/// Errors: ConfigError for what is no YAML, or uses what we refuse (tags, several documents, an alias to itself, sizes
/// beyond the limits above).
Node parse_yaml(const std::string& text, const std::string& source, Problems& problems);

/// Reads one JSON document into the same tree: texts are quoted scalars, numbers stay as written, `1e8` or `5e-05`.
/// Of keys given twice, which `problems` hears of, the first one counts.
/// Errors: ConfigError for what is no JSON in UTF-8, or beyond the limits above.
Node parse_json(const std::string& text, const std::string& source, Problems& problems);

/// True for a JSON object, which `parse_json` then reads unless it is beyond the limits.
bool is_json_object(const std::string& text);

/// The document as block YAML in the style of Accelerate's own files: two spaces, quotes only where needed.
std::string to_yaml(const Node& node);

}  // namespace trainer::config
