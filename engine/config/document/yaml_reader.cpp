// YAML text to Node, using yaml-cpp's events: its own tree silently keeps the first of duplicate keys, follows cycles
// and has no limits.
#include <algorithm>
#include <istream>
#include <map>
#include <set>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "engine/base/errors.h"
#include "engine/config/document/document.h"
#include "engine/config/document/problems.h"
#include "engine/config/document/yaml_mistake.h"

namespace trainer::config {
namespace {

/// The size of a copy of a tree.
struct Extent {
  int nodes = 1;
  int depth = 0;
  std::size_t bytes = 0;
};

Extent extent_of(const Node& node) {
  Extent extent{1, 0, node.text.size()};
  auto include = [&](const Node& inner) {
    const Extent part = extent_of(inner);
    extent = {extent.nodes + part.nodes, std::max(extent.depth, part.depth), extent.bytes + part.bytes};
  };
  for (const Node& item : node.items) include(item);
  for (const Member& member : node.members) {
    include(member.value);
    extent.bytes += member.key.size();
  }
  if (node.is_list() || node.is_map()) ++extent.depth;
  return extent;
}

class YamlBuilder : public YAML::EventHandler {
 public:
  YamlBuilder(const std::string& text, std::string source, Problems& problems)
      : text_(text), source_(std::make_shared<const std::string>(std::move(source))), problems_(problems) {}

  Node take() { return std::move(root_); }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    problems_.add(mark_of(mark), "", message);
    problems_.throw_if_any();
    throw InternalError("a problem was lost");
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, anchor, Node::null(null_at(mark))); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    const bool quoted = tag == "!";
    if (quoted) check_closed(mark);
    if (value.find('\0') != std::string::npos) fail(mark, "a text can't hold a zero byte (\\0)");
    add(mark, anchor, !quoted && is_null(value) ? Node::null(value) : Node::scalar(value, quoted));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto it = anchors_.find(anchor);
    if (it == anchors_.end()) fail(mark, "this alias (*name) is inside the value that it refers to");
    const Extent extent = extent_of(it->second);
    count(mark, extent.nodes);
    check_depth(mark, extent.depth);
    copied_ += extent.bytes;
    if (copied_ > kMaxBytes) fail(mark, fmt::format("aliases (*name) repeat more than {} bytes", kMaxBytes));
    add(mark, 0, it->second);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, Node::Kind::kList);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, Node::Kind::kMap);
  }
  void OnMapEnd() override { end(); }

 private:
  /// A list or map that is still incomplete.
  struct Open {
    Node node;
    YAML::anchor_t anchor;
    bool has_key = false;
    std::string key;
    Mark key_mark;
    bool duplicate = false;
    std::set<std::string> keys;
  };

  Mark mark_of(const YAML::Mark& mark) const { return {source_, mark.line + 1, mark.column + 1}; }

  void count(const YAML::Mark& mark, int nodes) {
    nodes_ += nodes;
    if (nodes_ > kMaxNodes) fail(mark, fmt::format("more than {} values: not a configuration", kMaxNodes));
  }

  void check_depth(const YAML::Mark& mark, int more) const {
    if (static_cast<int>(open_.size()) + more > kMaxDepth) {
      fail(mark, fmt::format("nested more than {} deep: not a configuration", kMaxDepth));
    }
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      fail(mark, fmt::format("YAML tags are not supported ({})", shown(tag)));
  }

  static bool is_null(std::string_view word) {
    return word.empty() || word == "~" || word == "null" || word == "Null" || word == "NULL";
  }

  /// How null is written at `mark`. For an empty value `mark` points at the next token.
  std::string null_at(const YAML::Mark& mark) const {
    const auto at = std::min(static_cast<std::size_t>(std::max(mark.pos, 0)), text_.size());
    const std::string word = text_.substr(at, text_.find_first_of(" \t\r\n,]}#", at) - at);
    return is_null(word) ? word : "";
  }

  /// yaml-cpp treats a quote that is never closed as closed by the end of the file.
  void check_closed(const YAML::Mark& mark) const {
    auto at = static_cast<std::size_t>(std::max(mark.pos, 0));
    while (at < text_.size() && text_[at] == '&') {  // an anchor comes first
      at = text_.find_first_of(" \t\n", at);
      at = at == std::string::npos ? text_.size() : text_.find_first_not_of(" \t\n", at);
    }
    if (at >= text_.size() || (text_[at] != '\'' && text_[at] != '"')) return;
    const char quote = text_[at++];
    for (; at < text_.size(); ++at) {
      if (quote == '"' && text_[at] == '\\') {
        ++at;
      } else if (text_[at] == quote) {
        if (quote == '"' || at + 1 >= text_.size() || text_[at + 1] != '\'') return;
        ++at;
      }
    }
    fail(mark, "this quote is never closed");
  }

  void start(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_tag(mark, tag);
    check_depth(mark, 1);
    expect_value(mark);
    Node node;
    node.kind = kind;
    node.mark = mark_of(mark);
    count(mark, 1);
    open_.push_back({std::move(node), anchor, false, "", {}, false, {}});
  }

  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    place(done.anchor, std::move(done.node));
  }

  void add(const YAML::Mark& mark, YAML::anchor_t anchor, Node node) {
    count(mark, 1);
    node.mark = mark_of(mark);
    if (!open_.empty() && open_.back().node.is_map() && !open_.back().has_key) {
      take_key(mark, anchor, node);
    } else {
      place(anchor, std::move(node));
    }
  }

  void expect_value(const YAML::Mark& mark) const {
    if (!open_.empty() && open_.back().node.is_map() && !open_.back().has_key) fail(mark, "a key must be plain text");
  }

  void take_key(const YAML::Mark& mark, YAML::anchor_t anchor, const Node& key) {
    if (!key.is_scalar() || anchor != 0) fail(mark, "a key must be plain text");
    if (key.text.size() > kLongestKey) fail(mark, fmt::format("a key of more than {} bytes", kLongestKey));
    Open& map = open_.back();
    map.has_key = true;
    map.key = key.text;
    map.key_mark = key.mark;
    map.duplicate = !map.keys.insert(key.text).second;
  }

  void place(YAML::anchor_t anchor, Node node) {
    if (anchor != 0) anchors_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.is_list()) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    parent.has_key = false;
    if (!parent.duplicate) return parent.node.members.push_back({parent.key, std::move(node), parent.key_mark});
    report_twice(parent.node.members, parent.key, node, parent.key_mark, problems_);
  }

  const std::string& text_;
  std::shared_ptr<const std::string> source_;
  Problems& problems_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;  // complete ones
  Node root_;
  int nodes_ = 0;
  std::size_t copied_ = 0;
};

/// yaml-cpp reads a bracket's content to the end before it emits an event, and needs 200 bytes for each open bracket.
/// Texts can contain brackets too, so the limit is far above what people write.
bool opens_too_many(const std::string& text) {
  constexpr int kMost = 1000;
  int open = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++open;
    if (c == ']' || c == '}') open = std::max(0, open - 1);
    if (open > kMost) return true;
  }
  return false;
}

/// Throws ConfigError for text that yaml-cpp would take too long to read, or explain badly.
void refuse_unreadable(const std::string& text, const std::string& source) {
  if (opens_too_many(text)) throw ConfigError("{}: nested more than {} deep: not a configuration", source, kMaxDepth);
  if (text.find('\n') == std::string::npos && std::count(text.begin(), text.end(), '\r') > 1)
    throw ConfigError("{}: its lines end with CR only, as on old Macs: save it with LF or CR LF line endings", source);
}

}  // namespace

Node parse_yaml(const std::string& text, const std::string& source, Problems& problems) {
  if (text.size() > kMaxBytes) {
    throw ConfigError("{}: is {} bytes long, but a configuration can have at most {}", source, text.size(), kMaxBytes);
  }
  if (const auto nul = text.find('\0'); nul != std::string::npos) {
    throw ConfigError("{}: holds a zero byte at offset {}: not a text file", source, nul);
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::string body = text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
  refuse_unreadable(body, source);
  YamlBuilder builder(body, source, problems);
  try {
    std::istringstream in(body);
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) return Node();
    Node root = builder.take();
    if (parser.HandleNextDocument(builder)) throw ConfigError("{}: holds more than one YAML document (---)", source);
    return root;
  } catch (const YAML::Exception& error) {
    builder.fail(error.mark, "not YAML: " + yaml_mistake(body, error.mark.line + 1, error.msg));
  }
}

}  // namespace trainer::config
