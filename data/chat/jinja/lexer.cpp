#include "data/chat/jinja/lexer.h"

#include <algorithm>
#include <cctype>

#include "data/chat/jinja/failure.h"
#include "data/chat/jinja/string_literal.h"
#include "data/chat/jinja/text.h"

namespace trainer::data::jinja {
namespace {

using TokenKind = Token::Kind;

/// Converts all line endings to LF and removes the last one.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      text();
      if (at_ >= source_.size()) break;
      const char tag = source_[at_ + 1];
      at_ += 2;
      if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
      if (tag == '#')
        comment();
      else
        inside(tag == '{');
    }
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return source_.substr(at_); }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void advance(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + count, '\n'));
    at_ += count;
  }

  void skip_space() { advance(rest().size() - stripped(rest(), true, false).size()); }

  /// The text up to the next tag, without the trailing space that the tag strips.
  void text() {
    size_t end = at_;
    for (; end < source_.size(); ++end) {
      if (source_[end] == '{' && end + 1 < source_.size() &&
          (source_[end + 1] == '{' || source_[end + 1] == '%' || source_[end + 1] == '#'))
        break;
    }
    end = std::min(end, source_.size());
    std::string_view text = source_.substr(at_, end - at_);
    if (end < source_.size()) {
      const char sign = end + 2 < source_.size() ? source_[end + 2] : ' ';
      if (sign == '-')
        text = stripped(text, false, true);
      else if (sign != '+' && source_[end + 1] != '{')
        text = without_indent(text);
    }
    if (!text.empty()) push(TokenKind::kText, std::string(text));
    advance(end - at_);
  }

  std::string_view without_indent(std::string_view text) const {
    const size_t line_end = text.rfind('\n'), begin = line_end == std::string_view::npos ? 0 : line_end + 1;
    if (begin == 0 && !line_starts_) return text;
    return stripped(text.substr(begin), true, false).empty() ? text.substr(0, begin) : text;
  }

  /// After the end of a tag: skips its line end, and after a minus all white space.
  void end_tag(size_t size, bool minus, bool trims) {
    advance(size);
    const size_t begin = at_;
    if (minus)
      skip_space();
    else if (trims && rest().starts_with('\n'))
      advance(1);
    line_starts_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) throw Failure(line_, "a comment that begins with {{# has no closing #}}");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    advance(end - at_);
    end_tag(2, sign == '-', sign != '+');
  }

  /// True when the tag ends here.
  bool ends(bool print) {
    const std::string_view close = print ? "}}" : "%}";
    const bool minus = rest().starts_with('-') && rest().substr(1).starts_with(close);
    const bool plus = !print && rest().starts_with("+%}");
    if (!minus && !plus && !rest().starts_with(close)) return false;
    push(print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "");
    end_tag(minus || plus ? 3 : 2, minus, !print && !plus);
    return true;
  }

  void inside(bool print) {
    push(print ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "");
    const int begun = line_;
    std::string open;  // brackets
    for (skip_space(); at_ < source_.size(); skip_space()) {
      if (open.empty() && ends(print)) return;
      token(open);
    }
    throw Failure(begun, "a tag that begins with {} has no closing {}", print ? "{{" : "{%", print ? "}}" : "%}");
  }

  void token(std::string& open) {
    const char c = source_[at_];
    if (begins_name(c))
      take(TokenKind::kName, [](char d) { return begins_name(d) || is_digit(d); });
    else if (is_digit(c))
      number();
    else if (c == '\'' || c == '"')
      string(c);
    else
      sign(open);
  }

  template <class Belongs>
  void take(TokenKind kind, const Belongs& belongs) {
    size_t end = at_;
    while (end < source_.size() && belongs(source_[end])) ++end;
    push(kind, std::string(source_.substr(at_, end - at_)));
    advance(end - at_);
  }

  size_t digits_end(size_t at) const {
    while (at < source_.size() && is_digit(source_[at])) ++at;
    return at;
  }

  void number() {
    size_t end = digits_end(at_);
    TokenKind kind = TokenKind::kInteger;
    const bool is_index = at_ > 0 && source_[at_ - 1] == '.';  // a.0.1
    if (!is_index && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits_end(end + 1);
      kind = TokenKind::kFloat;
    }
    if (!is_index && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
      if (end + 1 + sign < source_.size() && is_digit(source_[end + 1 + sign])) {
        end = digits_end(end + 1 + sign);
        kind = TokenKind::kFloat;
      }
    }
    if (kind == TokenKind::kInteger && !is_index && source_[at_] == '0' && end > at_ + 1)
      throw Failure(line_, "a number has a leading zero");
    if (end < source_.size() && begins_name(source_[end]))
      throw Failure(line_, "a number is followed by {}; only plain decimal numbers are supported", source_[end]);
    push(kind, std::string(source_.substr(at_, end - at_)));
    advance(end - at_);
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) throw Failure(line_, "a string that begins with {} has no closing quote", quote);
    push(TokenKind::kString, string_literal(source_.substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1 - at_);
  }

  void sign(std::string& open) {
    static constexpr std::string_view kDouble[] = {"**", "//", "==", "!=", "<=", ">="};
    static constexpr std::string_view kSingle = "+-/*%~[](){}<>=.:|,;";
    const char c = source_[at_];
    for (const std::string_view text : kDouble) {
      if (!rest().starts_with(text)) continue;
      push(TokenKind::kOperator, std::string(text));
      return advance(2);
    }
    size_t end = at_;
    next_character(source_, end);
    if (kSingle.find(c) == std::string_view::npos)
      throw Failure(line_, "unexpected character {}", source_.substr(at_, end - at_));
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : (c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) throw Failure(line_, "unmatched {}", c);
      open.pop_back();
    }
    push(TokenKind::kOperator, std::string(1, c));
    advance(1);
  }

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  const std::string plain = with_plain_lines(source);
  return Lexer(plain).run();
}

}  // namespace trainer::data::jinja
