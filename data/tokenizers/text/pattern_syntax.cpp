#include "data/tokenizers/text/pattern_syntax.h"

#include <vector>

#include <fmt/format.h>

#include "data/tokenizers/models/chars.h"
#include "data/tokenizers/wire_format.h"

namespace trainer::data {
namespace {

constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

class Translation {
 public:
  explicit Translation(std::string_view in) : in_(in) {}

  std::string run() {
    while (at_ < in_.size()) item();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Malformed{
        fmt::format("the regular expression `{}` has, at byte {}, {}, which is not supported", in_, at_, what)};
  }

  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void take(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  /// One atom, repetition or group outside of sets.
  void item() {
    switch (in_[at_]) {
      case '(':
        groups_.push_back(out_.size());
        open_group();
        break;
      case ')':
        atom_ = groups_.empty() ? out_.size() : groups_.back();
        if (!groups_.empty()) groups_.pop_back();
        take(1);
        break;
      case '[':
        atom_ = out_.size();
        set();
        break;
      case '\\':
        atom_ = out_.size();
        escape(false);
        break;
      case '{':
        repetition();
        break;
      case '*':
      case '+':
      case '?':
      case '|':
        take(1);
        break;
      default:
        atom_ = out_.size();
        take(char_length(in_, at_));
    }
  }

  void open_group() {
    take(1);
    if (next_is("*")) refuse("a verb `(*`");
    if (!next_is("?")) return;
    take(1);
    for (size_t i = at_; i < in_.size() && (in_[i] == '-' || (in_[i] >= 'a' && in_[i] <= 'z')); ++i) {
      if (in_[i] == 'm') refuse("the option `m`");
    }
    if (at_ < in_.size()) take(1);  // the character after `?` isn't an atom
    if (next_is("=") || next_is("!")) take(1);
  }

  /// `{n,m}` and a following `+`, which repeats the repetition.
  void repetition() {
    size_t close = in_.find('}', at_);
    std::string_view body = close == std::string_view::npos ? "" : in_.substr(at_ + 1, close - at_ - 1);
    bool counts = !body.empty() && body != "," && body.find_first_not_of("0123456789,") == std::string_view::npos;
    if (!counts) {
      atom_ = out_.size();
      out_ += "\\{";
      ++at_;
      return;
    }
    out_ += body.starts_with(',') ? fmt::format("{{0{}}}", body) : fmt::format("{{{}}}", body);
    at_ = close + 1;
    if (!next_is("+")) return;
    out_.insert(atom_, "(?:");
    out_ += ")";
  }

  void escape(bool in_set) {
    if (at_ + 1 >= in_.size()) refuse("a backslash at its end");
    char kind = in_[at_ + 1];
    std::string_view set;
    bool negated = kind == 'S' || kind == 'W' || kind == 'H';
    if (kind == 's' || kind == 'S') set = "\\p{White_Space}";
    if (kind == 'w' || kind == 'W') set = kWord;
    if (kind == 'h' || kind == 'H') set = "0-9A-Fa-f";
    if (kind == 'K' || kind == 'G' || kind == 'X' || kind == 'R' || kind == 'N' || kind == 'O' || kind == 'y') {
      refuse(fmt::format("`\\{}`", kind));
    }
    if ((kind == 'p' || kind == 'P') && at_ + 2 < in_.size() && in_[at_ + 2] == '{') return property(kind);
    if (set.empty()) {
      take(1);
      take(char_length(in_, at_));
      return;
    }
    at_ += 2;
    if (kind == 'S') {
      out_ += "\\P{White_Space}";
    } else if (!in_set) {
      out_ += fmt::format("[{}{}]", negated ? "^" : "", set);
    } else if (negated) {
      refuse(fmt::format("`\\{}` within a set", kind));
    } else {
      out_ += set;
    }
  }

  /// `\p{Han}` is the script itself in Oniguruma; in PCRE2 it includes script extensions.
  void property(char kind) {
    static constexpr std::string_view kScripts[] = {
        "Han",  "Hiragana", "Katakana",   "Hangul", "Latin",  "Cyrillic", "Greek",    "Arabic",  "Hebrew",
        "Thai", "Bengali",  "Devanagari", "Tamil",  "Telugu", "Common",   "Armenian", "Georgian"};
    size_t close = in_.find('}', at_);
    if (close == std::string_view::npos) refuse("an unterminated property");
    std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    bool script = false;
    for (std::string_view known : kScripts) script |= name == known;
    out_ += fmt::format("\\{}{{{}{}{}}}", kind, negated ? "^" : "", script ? "sc:" : "", name);
    at_ = close + 1;
  }

  void set() {
    take(1);
    if (next_is("^")) take(1);
    if (next_is("]")) refuse("an empty set");
    while (at_ < in_.size() && in_[at_] != ']') {
      if (next_is("[:")) {
        size_t close = in_.find(":]", at_);
        if (close == std::string_view::npos) refuse("an unterminated class `[:`");
        take(close + 2 - at_);
      } else if (next_is("[")) {
        refuse("a set within a set");
      } else if (next_is("&&")) {
        refuse("an intersection `&&` of sets");
      } else if (next_is("\\")) {
        escape(true);
      } else {
        take(char_length(in_, at_));
      }
    }
    if (at_ >= in_.size()) refuse("an unterminated set");
    take(1);
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // start of the last atom in out_
  std::vector<size_t> groups_;  // starts of the open groups in out_
};

}  // namespace

std::string from_oniguruma(std::string_view expression) {
  return Translation(expression).run();
}

}  // namespace trainer::data
