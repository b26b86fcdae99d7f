#include "data/readers/readers.h"
#include "engine/base/errors.h"

namespace trainer::data {

void read_text(const TextFile& file, const config::DataSource& source, const RecordSink& sink) {
  if (source.columns.size() > 1) {
    throw ConfigError("columns: a text file has 1 column, but {} names are given.", source.columns.size());
  }
  std::string column = source.columns.empty() ? "text" : source.columns[0];
  for_each_line(file, [&](int64_t number, std::string_view line) {
    sink(Record{{{column, std::string(line)}}, file.path, number});
  });
}

}  // namespace trainer::data
