// Any bytes as a file of records give the same records and faults for every read size, and JSON as another parser
// reads it, or an InputError. The first byte selects the format, the second one the settings.
#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/readers/json_object.h"
#include "data/readers/readers.h"
#include "engine/base/errors.h"
#include "engine/base/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace trainer::data {
namespace {

using config::DataFormat;

/// A source that returns at most `most` bytes per read.
class Dribble : public ByteSource {
 public:
  Dribble(Bytes bytes, size_t most) : bytes_(std::move(bytes)), most_(most) {}
  size_t read(char* to, size_t size) override { return bytes_->read(to, std::min(size, most_)); }

 private:
  Bytes bytes_;
  size_t most_;
};

/// The outcome of reading a file.
struct Outcome {
  std::vector<Record> records;
  std::vector<std::string> faults;
  std::string error;
  bool operator==(const Outcome& other) const {
    auto same = [](const Record& a, const Record& b) {
      return a.fields == b.fields && a.line == b.line && a.json == b.json;
    };
    return faults == other.faults && error == other.error &&
           std::equal(records.begin(), records.end(), other.records.begin(), other.records.end(), same);
  }
};

void check_record(const Record& record) {
  check(record.line >= 1, "a record has a line");
  check(!record.fields.empty() || record.json.empty(), "marks belong to fields");
  for (const auto& [name, text] : record.fields) {
    check(is_utf8(name) && is_utf8(text), "a record is UTF-8");
    check(text.find('\0') == std::string::npos, "a record has no NUL");
  }
}

Outcome read(const std::string& file, DataFormat format, const config::DataSource& source, size_t portion) {
  Outcome outcome;
  try {
    Bytes bytes = unpacked(std::make_unique<Dribble>(bytes_of(file), portion), "f");
    bytes = std::make_unique<Dribble>(std::move(bytes), portion);
    Reader reader = make_reader(TextInput(std::move(bytes), "f", source.encoding), format, source);
    for (;;) {
      Record record;
      try {
        if (!reader->next(record)) break;
        check_record(record);
        outcome.records.push_back(std::move(record));
      } catch (const BadRecord& bad) {
        check(std::string_view(bad.what()).starts_with(bad.place()), "a message begins with its place");
        outcome.faults.push_back(bad.what());
      }
    }
  } catch (const InputError& error) {
    outcome.error = error.what();
    check(outcome.error.starts_with("f:"), "a message names the file");
  }
  return outcome;
}

/// Compares our parsing of an object with another parser's.
void check_object(const std::string& text) {
  if (!is_utf8(text) || text.find('\0') != std::string::npos) return;
  Record record;
  nlohmann::json other = nlohmann::json::parse(text, nullptr, false);
  try {
    read_object(text, record);
  } catch (const JsonFault& fault) {
    check(fault.offset <= text.size(), "a fault is inside the text");
    const bool ours_alone = fault.why.find("twice") != std::string::npos ||
                            fault.why.find("deeper") != std::string::npos || fault.fault == Fault::kNul ||
                            (fault.fault == Fault::kNotObject && !other.is_object());
    check(other.is_discarded() || ours_alone, "text that another parser accepts is accepted");
    return;
  }
  if (other.is_discarded()) {  // it also rejects numbers outside the range of double
    check(text.find_first_of("eE") != std::string::npos || text.size() > 300,
          "text that another parser rejects is rejected");
    return;
  }
  check(other.size() == record.fields.size(), "all fields are read");
  for (size_t i = 0; i < record.fields.size(); ++i) {
    const auto& [name, value] = record.fields[i];
    const bool json = i < record.json.size() && record.json[i];
    if (!json) check(other.at(name) == nlohmann::json(value), "a text is the same");
    if (json && value.empty()) check(other.at(name).is_null(), "null is the same");
    if (json && !value.empty()) check(other.at(name) == nlohmann::json::parse(value), "a value is the same");
  }
}

}  // namespace
}  // namespace trainer::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace trainer;
  using namespace trainer::data;
  static constexpr DataFormat kFormats[] = {DataFormat::kDelimited, DataFormat::kCsv,   DataFormat::kTsv,
                                            DataFormat::kJson,      DataFormat::kJsonl, DataFormat::kText};
  if (size < 2) return 0;
  const DataFormat format = kFormats[data[0] % std::size(kFormats)];
  const uint8_t settings = data[1];
  config::DataSource source;
  if (settings & 1) source.encoding = "latin-1";
  if (settings & 2) source.split_at = "first";
  if (settings & 2) source.sample_by = settings & 1 ? config::SampleBy::kDocument : config::SampleBy::kParagraph;
  if (settings & 4 && format != DataFormat::kText) source.columns = {"a", "b"};
  const std::string file(reinterpret_cast<const char*>(data) + 2, size - 2);

  const Outcome whole = read(file, format, source, file.size() + 1);
  // The zstd library may return less data before a corrupt part, so that another line is reported.
  if (whole.error.find("zstd data are corrupt") == std::string::npos) {
    check(read(file, format, source, 1 + (settings >> 4)) == whole, "the read size makes no difference");
  }
  if (format == DataFormat::kJsonl) check_object(file);
  return 0;
}
