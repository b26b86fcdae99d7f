#include <algorithm>
#include <set>

#include "data/readers/readers.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

using Row = std::vector<std::string>;

/// Cuts text into rows of fields.
class RowReader {
 public:
  RowReader(const TextFile& file, char separator) : file_(file), text_(file.text), separator_(separator) {}

  /// Reads the next row that isn't blank into `row`; false at the end.
  bool next(Row& row) {
    while (at_ < text_.size()) {
      row.clear();
      row_line_ = line_;
      bool quoted = false;
      size_t start = at_;
      while (!take_field(row, quoted)) {
      }
      if (at_ - start > kMaxLineBytes)
        fail(fmt::format("a record of {} bytes; at most {} are read", at_ - start, kMaxLineBytes));
      bool blank = row.size() == 1 && !quoted && trimmed(row[0]).empty();
      if (!blank) return true;
    }
    return false;
  }

  /// Where the last row begins.
  int64_t line() const { return row_line_; }

  [[noreturn]] void fail(const std::string& why) const { throw InputError("{}:{}: {}.", file_.path, row_line_, why); }

 private:
  /// Appends one field and steps over what ends it; true when that ends the row.
  bool take_field(Row& row, bool& quoted) {
    std::string field;
    if (at_ < text_.size() && text_[at_] == '"') {
      quoted = true;
      take_quoted(field);
    } else {
      size_t end = std::min({text_.find(separator_, at_), text_.find('\n', at_), text_.size()});
      field = text_.substr(at_, end - at_);
      at_ = end;
      bool at_row_end = at_ == text_.size() || text_[at_] == '\n';
      if (at_row_end && field.ends_with('\r')) field.pop_back();
    }
    row.push_back(std::move(field));
    return take_end();
  }

  void take_quoted(std::string& field) {
    for (++at_;; ++at_) {
      size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) fail("a quoted field begins here and never ends");
      std::string_view part = text_.substr(at_, quote - at_);
      line_ += std::count(part.begin(), part.end(), '\n');
      field += part;
      at_ = quote + 1;
      if (at_ >= text_.size() || text_[at_] != '"') return;
      field += '"';  // two quotes stand for one
    }
  }

  bool take_end() {
    if (text_.substr(at_).starts_with("\r\n")) ++at_;
    if (at_ == text_.size()) return true;
    char end = text_[at_];
    if (end != '\n' && end != separator_) fail("text follows the closing quote of a field");
    ++at_;
    if (end == '\n') ++line_;
    return end == '\n';
  }

  const TextFile& file_;
  std::string_view text_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 1, row_line_ = 1;
};

/// The columns' names, from the configuration or the first line. Leaves in `row` the first row of data, or nothing.
Row read_header(RowReader& reader, const Row& configured, Row& row) {
  bool is_there = reader.next(row);
  if (!configured.empty()) {
    if (!is_there || row == configured) row.clear();
    return configured;
  }
  Row names = std::move(row);
  row.clear();
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (trimmed(name).empty()) reader.fail("a column has no name; without a line of names, give `columns`");
    if (!seen.insert(name).second) reader.fail(fmt::format("two columns have the name '{}'", name));
  }
  return names;
}

Record make_record(const RowReader& reader, const std::string& path, const Row& names, Row&& row) {
  if (row.size() != names.size()) {
    reader.fail(fmt::format("{} fields where {} columns are named", row.size(), names.size()));
  }
  Record record{{}, path, reader.line()};
  for (size_t i = 0; i < names.size(); ++i) record.fields.emplace_back(names[i], std::move(row[i]));
  return record;
}

}  // namespace

void read_separated(const TextFile& file, char separator, const config::DataSource& source, const RecordSink& sink) {
  RowReader reader(file, separator);
  Row row;
  Row names = read_header(reader, source.columns, row);
  if (!row.empty()) sink(make_record(reader, file.path, names, std::move(row)));
  while (reader.next(row)) sink(make_record(reader, file.path, names, std::move(row)));
}

}  // namespace trainer::data
