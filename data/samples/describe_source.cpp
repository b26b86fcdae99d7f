#include "data/samples/describe_source.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "data/chat/conversation.h"
#include "data/chat/pair.h"
#include "data/chat/play_records.h"
#include "data/readers/mnist.h"
#include "data/readers/readers.h"
#include "data/readers/text_input.h"
#include "engine/base/errors.h"
#include "engine/config/document/scalar.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using config::DataConfig;
using config::DataFormat;
using config::DataSource;
using config::Dialogue;

constexpr size_t kMostRead = 10'000;  // records: enough to find irregular ones, and quick to read
constexpr size_t kMostHeld = 200;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_megatron(const std::string& path) {
  if (path.ends_with(".bin") || path.ends_with(".idx")) return is_file(path.substr(0, path.size() - 4) + ".idx");
  return is_file(path + ".bin") && is_file(path + ".idx");
}

bool is_mnist(const std::string& path) {
  const auto named = [](const fs::path& file) { return file.filename().string().find("-ubyte") != std::string::npos; };
  std::error_code error;
  if (!fs::is_directory(path, error)) return named(path) && is_file(path);
  if (fs::is_directory(fs::path(path) / "MNIST" / "raw", error)) return true;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (named(entry->path())) return true;
  return false;
}

/// Reads the first records and returns a few of them. Errors: as RecordStream.
std::vector<Record> first_records(const DataSource& source, std::vector<std::string>& columns,
                                  const std::function<void(const Record&)>& look = {}) {
  std::vector<Record> held;
  RecordStream stream(source);
  Record record;
  for (size_t count = 0; count < kMostRead && stream.next(record); ++count) {
    if (count == 0)
      for (const auto& field : record.fields) columns.push_back(field.first);
    std::erase_if(columns, [&](const std::string& name) { return record.find(name) == nullptr; });
    if (look) look(record);
    if (held.size() < kMostHeld) held.push_back(record);
  }
  return held;
}

/// Whether the files can be read with these options.
bool reads(const DataSource& source) {
  try {
    std::vector<std::string> columns;
    first_records(source, columns);
    return true;
  } catch (const Error&) {
    return false;
  }
}

DataSource with_format(DataSource source, DataFormat format) {
  source.format = format;
  return source;
}

/// The delimiter that splits every line of a text file in two; "" when no common one does.
std::string delimiter_in(const DataSource& source) {
  std::vector<std::string> columns;
  const std::vector<Record> lines = first_records(with_format(source, DataFormat::kText), columns);
  for (const std::string delimiter : {"\t", "|||", "@", "|", ";"}) {
    const auto divided = [&](const Record& line) {
      const std::string& text = line.fields[0].second;
      const size_t at = text.rfind(delimiter);
      return at != std::string::npos && at > 0 && at + delimiter.size() < text.size();
    };
    if (lines.size() > 1 && std::all_of(lines.begin(), lines.end(), divided)) return delimiter;
  }
  return "";
}

/// The format of a file whose extension is unknown or misleading: JSON lines are often called .json.
DataFormat format_by_content(const DataSource& source, DataFormat named) {
  const bool is_json = named == DataFormat::kJson || named == DataFormat::kJsonl;
  if (named != DataFormat::kAuto && !is_json) return named;
  if (is_json && reads(with_format(source, named))) return named;
  for (const DataFormat format : {DataFormat::kJsonl, DataFormat::kJson})
    if (format != named && reads(with_format(source, format))) return format;
  return is_json ? named : DataFormat::kText;
}

/// Detects `source.format` and the options that depend on it.
void find_format(const DataConfig& config, DataSource& source, SourceDescription& found) {
  const std::string& first = source.path.front();
  if (is_mnist(first)) {
    source.format = DataFormat::kMnist;
  } else if (is_megatron(first)) {
    source.format = DataFormat::kMegatron;
  } else {
    std::error_code ignored;
    const bool unnamed = source.path.size() == 1 && is_file(first) && !has_known_ending(first);
    const DataFormat named = unnamed ? DataFormat::kAuto : find_sources(source)[0].files[0].format;
    source.format = format_by_content(source, named);
    found.by_ending = source.format == named;
  }
  if (source.format != DataFormat::kText || config.task == config::Task::kCausalLm) return;
  const std::string delimiter = delimiter_in(source);
  if (delimiter.empty()) return;
  source.format = DataFormat::kDelimited;
  source.delimiter = delimiter;
  found.by_ending = false;
}

/// Whether a file's first line looks like column names: short words, none of which is a value in a later line.
bool are_names(const std::vector<std::string>& columns, const std::vector<Record>& records) {
  constexpr size_t kLongestName = 40;
  for (const std::string& name : columns) {
    const bool number = config::parse_double(name).has_value();
    const bool sentence = name.size() > kLongestName || std::count(name.begin(), name.end(), ' ') > 2;
    if (name.empty() || number || sentence) return false;
    const auto repeats = [&](const Record& record) { return *record.find(name) == name; };
    if (std::any_of(records.begin(), records.end(), repeats)) return false;
  }
  return true;
}

/// Names for unnamed columns: the one with the longest texts is `text`; of the others, the one with the fewest values
/// is `label`.
std::vector<std::string> suggested_names(const std::vector<std::string>& columns, const std::vector<Record>& records) {
  std::vector<size_t> bytes(columns.size()), values(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    std::set<std::string> distinct;
    for (const Record& record : records) {
      bytes[i] += record.find(columns[i])->size();
      distinct.insert(*record.find(columns[i]));
    }
    values[i] = distinct.size();
  }
  const auto text = static_cast<size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  values[text] = records.size() + 1;
  const auto label = static_cast<size_t>(std::min_element(values.begin(), values.end()) - values.begin());
  std::vector<std::string> names;
  for (size_t i = 0; i < columns.size(); ++i)
    names.push_back(i == text ? "text" : i == label ? "label" : fmt::format("column_{}", i + 1));
  return names;
}

/// Detects the dialogue format of a record; the turns may be in any column.
void find_dialogue(const Record& record, DataConfig config, SourceDescription& found) {
  config.learn = config::Learn::kAll;  // any turns are accepted
  const auto holds = [&](Dialogue dialogue, const std::string& messages) {
    config.dialogue = dialogue;
    config.messages = messages;
    config.source = config::kPromptColumn;
    config.target = config::kCompletionColumn;
    try {
      conversation_of(record, config);
    } catch (const InputError&) {
      return false;
    }
    found.dialogue = dialogue;
    found.messages = messages;
    return true;
  };
  for (const Dialogue dialogue : {Dialogue::kMessages, Dialogue::kShareGpt, Dialogue::kAlpaca, Dialogue::kPrompt})
    if (holds(dialogue, "")) return;
  for (const auto& [name, text] : record.fields)
    if (text.starts_with('[') && (holds(Dialogue::kMessages, name) || holds(Dialogue::kShareGpt, name))) return;
}

/// The same of a pair. Texts are not known to be dialogues.
void find_pair(const Record& record, DataConfig config, SourceDescription& found) {
  for (const Dialogue dialogue : {Dialogue::kMessages, Dialogue::kShareGpt, Dialogue::kAlpaca}) {
    config.dialogue = dialogue;
    try {
      pair_of(record, config);
      found.dialogue = dialogue;
      return;
    } catch (const InputError&) {
    }
  }
}

void describe_images(const std::string& path, SourceDescription& found) {
  const Images images = read_mnist(path, MnistPart::kTrain);
  found.features = images.features;
  found.classes = *std::max_element(images.labels.begin(), images.labels.end()) + 1;
}

void describe_records(const DataConfig& config, SourceDescription& found) {
  const DataSource& source = config.train;
  std::set<std::string> labels;
  std::vector<Record> records = first_records(source, found.columns, [&](const Record& record) {
    if (config.task != config::Task::kSequenceClassification) return;
    if (const std::string* label = record.find(config.target)) labels.insert(std::string(trimmed(*label)));
  });
  found.labels.assign(labels.begin(), labels.end());
  const bool separated = source.format == DataFormat::kCsv || source.format == DataFormat::kTsv;
  if (separated && source.columns.empty() && !are_names(found.columns, records))
    found.names = suggested_names(found.columns, records);
  if (config.task != config::Task::kCausalLm) return;
  if (!config.rejected.empty())
    find_pair(records[0], config, found);
  else if (config.dialogue == Dialogue::kPlay)
    PlayRecords(source, config.character).next(records[0]);
  else if (config.dialogue != Dialogue::kNone)
    conversation_of(records[0], config);
  else
    find_dialogue(records[0], config, found);
}

}  // namespace

SourceDescription describe_source(const DataConfig& given) {
  DataConfig config = given;
  SourceDescription found;
  const auto describe = [&] {
    found = {};
    config.train.format = given.train.format;
    if (config.train.format == DataFormat::kAuto) find_format(config, config.train, found);
    found.format = config.train.format;
    found.delimiter = config.train.delimiter;
    found.encoding = config.train.encoding;
    if (found.format == DataFormat::kMnist) {
      describe_images(config.train.path.front(), found);
    } else if (found.format != DataFormat::kMegatron) {
      describe_records(config, found);
    }
  };
  try {
    describe();
  } catch (const InputError&) {  // the common alternative, in which every byte is a character
    config.train.encoding = "latin-1";
    try {
      describe();
      return found;
    } catch (const InputError&) {
    }
    throw;
  }
  return found;
}

}  // namespace trainer::data
