#include <algorithm>
#include <set>

#include "data/readers/bad_record.h"
#include "data/readers/record_reader.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

using Row = std::vector<std::string>;
constexpr size_t kNone = std::string_view::npos;

/// Pieces are rows: a line end inside quotes doesn't end the row.
class RowEnd : public PieceEnd {
 public:
  explicit RowEnd(char separator) : separator_(separator) {}

  void begin() override {
    state_ = State::kFieldStart;
    lines_ = 0;
  }

  size_t find(std::string_view text, size_t from) override {
    if (state_ == State::kFieldStart || state_ == State::kPlain) {  // most rows have no quotes
      size_t newline = text.find('\n', from);
      std::string_view line = text.substr(from, newline == kNone ? kNone : newline - from);
      if (line.find('"') == kNone) {
        if (!line.empty()) state_ = line.back() == separator_ ? State::kFieldStart : State::kPlain;
        return newline == kNone ? kNone : newline + 1;
      }
    }
    for (size_t at = from; at < text.size();) {
      if (state_ == State::kQuoted) {
        at = step_over_quoted(text, at);
      } else if (step(text[at++])) {
        return at;
      }
    }
    return kNone;
  }

  /// True while a quoted field has not ended.
  bool quoted() const { return state_ == State::kQuoted; }
  /// The line of the last quoted field, relative to the start of the row.
  int64_t quote_line() const { return quote_line_; }

 private:
  enum class State { kFieldStart, kPlain, kQuoted, kQuoteSeen };

  /// True when `c` ends the row.
  bool step(char c) {
    if (c == '"' && (state_ == State::kFieldStart || state_ == State::kQuoteSeen)) {  // two quotes are an escaped quote
      if (state_ == State::kFieldStart) quote_line_ = lines_;
      state_ = State::kQuoted;
    } else {
      state_ = c == separator_ ? State::kFieldStart : State::kPlain;
    }
    return c == '\n';
  }

  size_t step_over_quoted(std::string_view text, size_t at) {
    size_t quote = text.find('"', at);
    std::string_view inside = text.substr(at, quote == kNone ? kNone : quote - at);
    lines_ += std::count(inside.begin(), inside.end(), '\n');
    if (quote == kNone) return text.size();
    state_ = State::kQuoteSeen;
    return quote + 1;
  }

  char separator_;
  State state_ = State::kFieldStart;
  int64_t lines_ = 0, quote_line_ = 0;
};

class SeparatedReader : public RecordReader {
 public:
  SeparatedReader(TextInput input, char separator, Row columns)
      : input_(std::move(input)),
        row_end_(separator),
        separator_(separator),
        names_(std::move(columns)),
        may_repeat_names_(!names_.empty()) {}

  bool next(Record& record) override {
    if (names_.empty() && !read_names()) return false;
    bool first = std::exchange(may_repeat_names_, false);
    if (!read_row()) return false;
    if (first && row_ == names_ && !read_row()) return false;
    if (row_.size() != names_.size()) {
      throw BadRecord(Fault::kRagged, place(), "expected {} fields, one per column, found {}.", names_.size(),
                      row_.size());
    }
    record.line = line_;
    for (size_t i = 0; i < names_.size(); ++i) record.fields.emplace_back(names_[i], std::move(row_[i]));
    return true;
  }

 private:
  std::string place() const { return fmt::format("{}:{}", input_.path(), line_); }

  bool read_names() {
    try {
      if (!read_row()) return false;
    } catch (const BadRecord& bad) {  // no row can be read without the header
      throw InputError("{}", bad.what());
    }
    std::set<std::string> seen;
    for (const std::string& name : row_) {
      if (name.find('\r') != kNone) {
        throw InputError("{}: its lines end with CR only, as on old Macs.\nConvert it with `tr '\\r' '\\n'`.", place());
      }
      if (trimmed(name).empty()) {
        throw InputError("{}: a column has no name; if the file has no header line, set `columns`.", place());
      }
      if (!seen.insert(name).second) throw InputError("{}: two columns are named '{}'.", place(), name);
    }
    names_ = row_;
    return true;
  }

  /// Reads the next row that isn't blank into row_; false at the end.
  bool read_row() {
    while (cut()) {
      line_ = piece_.line;
      std::string_view text = without_line_end(input_.text_of(piece_));
      if (trimmed(text).empty() && text.find(separator_) == kNone) continue;
      divide(text);
      return true;
    }
    return false;
  }

  bool cut() {
    bool is_there = input_.cut(row_end_, piece_);
    if (row_end_.quoted()) {
      throw InputError("{}:{}: a quoted field begins here and has no closing quote.", input_.path(),
                       piece_.line + row_end_.quote_line());
    }
    return is_there;
  }

  void divide(std::string_view text) {
    row_.clear();
    for (size_t at = 0;; ++at) {
      std::string& field = row_.emplace_back();
      if (at < text.size() && text[at] == '"') {
        at = take_quoted(text, at + 1, field);
      } else {
        size_t end = std::min(text.find(separator_, at), text.size());
        field = text.substr(at, end - at);
        at = end;
      }
      if (at == text.size()) return;
    }
  }

  /// Returns the position after the field.
  size_t take_quoted(std::string_view text, size_t at, std::string& field) const {
    for (;;) {
      size_t quote = text.find('"', at);
      require(quote != kNone, "a row ends inside quotes");
      field += text.substr(at, quote - at);
      at = quote + 1;
      if (at == text.size() || text[at] == separator_) return at;
      if (text[at] != '"') throw BadRecord(Fault::kStrayQuote, place(), "text follows the closing quote of a field.");
      field += '"';
      ++at;
    }
  }

  TextInput input_;
  RowEnd row_end_;
  char separator_;
  RawPiece piece_;  // the raw row
  Row names_, row_;
  bool may_repeat_names_;
  int64_t line_ = 1;
};

}  // namespace

Reader separated_reader(TextInput input, char separator, const config::DataSource& source) {
  return std::make_unique<SeparatedReader>(std::move(input), separator, source.columns);
}

}  // namespace trainer::data
