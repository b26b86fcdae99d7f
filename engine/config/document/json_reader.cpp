// JSON text to Node, using nlohmann's events: its own tree has no positions and does not keep how a number was written.
#include <iterator>
#include <set>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/config/document/document.h"
#include "engine/config/document/json_mistake.h"
#include "engine/config/document/problems.h"
#include "engine/config/document/text.h"

namespace trainer::config {
namespace {

/// Iterates over the bytes of a text and counts them: the events do not include positions.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* taken_;
};

/// Receives the events. Between two tokens there are only whitespace and ",:[]{}", so a token begins at the first other
/// byte after the previous token.
class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonBuilder(const std::string& text, const std::string& source, Problems& problems)
      : text_(text), places_(text, source), problems_(problems) {}

  std::size_t* taken() { return &taken_; }
  Node take() { return std::move(root_); }

  bool null() override { return add(Node::null("null"), taken_); }
  bool boolean(bool value) override { return add(Node::scalar(value ? "true" : "false"), taken_); }
  // JSON allows one spelling of an integer, except that -0 is 0.
  bool number_integer(number_integer_t value) override { return number(value == 0 ? 2 : fmt::to_string(value).size()); }
  bool number_unsigned(number_unsigned_t value) override { return number(fmt::to_string(value).size()); }
  bool number_float(number_float_t, const string_t& text) override { return number(text.size()); }
  bool string(string_t& value) override {
    refuse_zero(value);
    return add(Node::scalar(std::move(value), true), taken_);
  }
  bool binary(binary_t&) override { return false; }  // not in text

  bool start_object(std::size_t) override { return start(Node::Kind::kMap); }
  bool key(string_t& value) override;
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return start(Node::Kind::kList); }
  bool end_array() override { return end(); }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception& error) override;

 private:
  /// A list or map that is still incomplete.
  struct Open {
    Node node;
    std::string key;
    Mark key_mark;
    bool has_key = false;
    bool duplicate = false;
    std::set<std::string> keys;
  };

  [[noreturn]] void fail(const Mark& mark, const std::string& message) {
    problems_.add(mark, "", message);
    problems_.throw_if_any();
    throw InternalError("a problem was lost");
  }

  std::size_t token_start() const { return std::min(text_.find_first_not_of(" \t\r\n,:[]{}", end_), text_.size()); }

  void refuse_zero(const std::string& value) {
    if (value.find('\0') != std::string::npos)
      fail(places_.at(token_start()), "a text can't hold a zero byte (\\u0000)");
  }

  void count(const Mark& mark) {
    if (++nodes_ > kMaxNodes) fail(mark, fmt::format("more than {} values: not a configuration", kMaxNodes));
  }

  /// `taken_` can be one byte too far: a parser detects the end of a number only by the next byte.
  bool number(std::size_t length) {
    const std::size_t start = token_start();
    return add(Node::scalar(text_.substr(start, length)), start + length);
  }

  bool add(Node node, std::size_t end) {
    node.mark = places_.at(token_start());
    end_ = end;
    count(node.mark);
    place(std::move(node));
    return true;
  }

  bool start(Node::Kind kind) {
    end_ = taken_;
    Node node;
    node.kind = kind;
    node.mark = places_.at(taken_ - 1);
    count(node.mark);
    if (static_cast<int>(open_.size()) >= kMaxDepth) {
      fail(node.mark, fmt::format("nested more than {} deep: not a configuration", kMaxDepth));
    }
    open_.push_back({std::move(node), "", Mark(), false, false, {}});
    return true;
  }

  bool end() {
    end_ = taken_;
    Node done = std::move(open_.back().node);
    open_.pop_back();
    place(std::move(done));
    return true;
  }

  void place(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      complete_ = true;
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

  JsonStop::Expected expected(std::size_t offset) const;

  const std::string& text_;
  Places places_;
  Problems& problems_;
  std::size_t taken_ = 0;  // how far the parser has read
  std::size_t end_ = 0;    // the end of the last token that made an event
  std::vector<Open> open_;
  Node root_;
  bool complete_ = false;
  int nodes_ = 0;
};

bool JsonBuilder::key(string_t& value) {
  refuse_zero(value);
  Open& map = open_.back();
  map.key_mark = places_.at(token_start());
  end_ = taken_;
  count(map.key_mark);
  if (value.size() > kLongestKey) fail(map.key_mark, fmt::format("a key of more than {} bytes", kLongestKey));
  map.has_key = true;
  map.duplicate = !map.keys.insert(value).second;
  map.key = std::move(value);
  return true;
}

/// What the parser expects at `offset`, given everything before it.
JsonStop::Expected JsonBuilder::expected(std::size_t offset) const {
  using Expected = JsonStop::Expected;
  if (open_.empty()) return complete_ ? Expected::kEnd : Expected::kValue;
  const std::string between = text_.substr(end_, offset - end_);
  const bool comma = between.find(',') != std::string::npos;
  const bool colon = between.find(':') != std::string::npos;
  const Node& node = open_.back().node;
  const bool first = node.items.empty() && node.members.empty() && !open_.back().has_key;
  if (node.is_list()) return comma || first ? Expected::kValue : Expected::kSeparator;
  if (open_.back().has_key) return colon ? Expected::kValue : Expected::kColon;
  return comma || first ? Expected::kKey : Expected::kSeparator;
}

bool JsonBuilder::parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) {
  JsonStop stop;
  stop.previous = end_;
  stop.offset = token_start();
  if (stop.offset >= taken_) {  // the token is one of ",:[]{}", or the end
    stop.offset = position > text_.size() ? text_.size() : taken_ - 1;
  }
  stop.expected = expected(stop.offset);
  stop.message = error.what();
  if (!open_.empty()) {
    const Open& open = open_.back();
    stop.open = open.node.is_map() ? '{' : '[';
    stop.open_line = open.node.mark.line;
    stop.key = open.key;
  }
  const JsonMistake mistake = find_mistake(text_, stop);
  fail(places_.at(mistake.offset), "not JSON: " + mistake.reason);
}

}  // namespace

Node parse_json(const std::string& text, const std::string& source, Problems& problems) {
  const std::string body = utf8_text(text, source);
  JsonBuilder builder(body, source, problems);
  const char* begin = body.data();
  nlohmann::json::sax_parse(CountingIterator(begin, builder.taken()),
                            CountingIterator(begin + body.size(), builder.taken()), &builder);
  return builder.take();
}

bool is_json_object(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' && nlohmann::json::accept(text);
}

}  // namespace trainer::config
