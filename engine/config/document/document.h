// A YAML document as a tree of text: every scalar keeps its text and position. The option that reads a scalar decides
// what the text means (a number, a name, a boolean), so YAML's implicit typing (`no` is false, `1e8` is text) never
// matters.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace trainer::config {

/// Where something was written. Line and column count from 1; 0: the source has no lines (for example a flag).
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
/// Prefix of the source in the mark of an environment variable; the variable's name follows.
inline constexpr const char* kEnvironmentSource = "environment ";

struct Member;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;             // of scalars; for null: as it was written, "" for nothing at all
  bool quoted = false;          // scalars: written in quotes (or as a block), so never a number or a boolean
  std::vector<Node> items;      // lists
  std::vector<Member> members;  // maps, in the order written
  Mark mark;
  std::string comment;  // written after the value

  static Node null(std::string text);
  static Node scalar(std::string text, bool quoted = false);
  static Node list(const std::vector<std::string>& texts);
  static Node map();

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }

  const Node* find(const std::string& key) const;
  /// The value of `key`, which is added at the end if absent.
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

/// True if both hold the same values, regardless of position and quoting.
bool same(const Node& a, const Node& b);

/// Limits beyond which a document is refused as not being a configuration.
inline constexpr std::size_t kMaxBytes = 1 << 20;
inline constexpr int kMaxNodes = 20'000;
inline constexpr int kMaxDepth = 32;
inline constexpr std::size_t kLongestKey = 200;  // YAML's own limit is 1024, escapes and quotes included

class Problems;

/// Reports that `key`, at `mark`, is in `members` already: a warning if its value there equals `value`, otherwise a
/// problem.
void report_twice(const std::vector<Member>& members, const std::string& key, const Node& value, const Mark& mark,
                  Problems& problems);

/// Reads one YAML document. Duplicate keys are reported to `problems`, and the first one counts.
/// Errors: ConfigError for invalid YAML and for features that we refuse (tags, several documents, an alias to itself,
/// sizes beyond the limits above).
Node parse_yaml(const std::string& text, const std::string& source, Problems& problems);

/// Reads one JSON document into the same tree: texts are quoted scalars, numbers stay as written, `1e8` or `5e-05`.
/// Duplicate keys are reported to `problems`, and the first one counts.
/// Errors: ConfigError for invalid JSON or UTF-8, and beyond the limits above.
Node parse_json(const std::string& text, const std::string& source, Problems& problems);

/// True for a JSON object, which `parse_json` can read unless it exceeds the limits.
bool is_json_object(const std::string& text);

/// The document as block YAML in the style of Accelerate's own files: two spaces, quotes only where needed.
std::string to_yaml(const Node& node);

}  // namespace trainer::config
