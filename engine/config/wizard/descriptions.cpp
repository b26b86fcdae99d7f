#include "engine/config/wizard/descriptions.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"

namespace trainer::config {
namespace {

/// The description that `read` extracts from an object without an error.
template <class Description, class Read>
std::optional<Description> parse(const std::string& text, Read read) {
  try {
    const auto json = bounded_json_or_none(text);
    Description description;
    if (json.contains("error"))
      description.error = json.at("error");
    else
      read(json, description);
    return description;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string DataDescription::text() const {
  if (features > 0) return fmt::format("{}, images with {} values, {} classes", format, features, classes);
  if (!names.empty()) return fmt::format("{} without column names, {} columns", format, names.size());
  if (columns.empty()) return format;
  const std::string divided = delimiter == "\t" ? " by a tab" : " by '" + delimiter + "'";
  return fmt::format("{}{}, {}: {}", format, format == "delimited" ? divided : "",
                     columns.size() == 1 ? "column" : "columns", fmt::join(columns, ", "));
}

std::optional<TokenizerDescription> parse_tokenizer(const std::string& text) {
  return parse<TokenizerDescription>(text, [](const auto& json, TokenizerDescription& tokenizer) {
    tokenizer.size = json.at("size");
    tokenizer.chat_template = json.at("chat_template");
    tokenizer.templates = json.at("templates");
  });
}

std::optional<DataDescription> parse_data(const std::string& text) {
  return parse<DataDescription>(text, [](const auto& json, DataDescription& data) {
    data.format = json.at("format");
    data.by_ending = json.at("by_ending");
    data.delimiter = json.at("delimiter");
    data.encoding = json.at("encoding");
    data.columns = json.at("columns");
    data.names = json.at("names");
    data.dialogue = json.at("dialogue");
    data.messages = json.at("messages");
    data.labels = json.at("labels");
    data.features = json.at("features");
    data.classes = json.at("classes");
  });
}

std::optional<SamplesDescription> parse_samples(const std::string& text) {
  return parse<SamplesDescription>(
      text, [](const auto& json, SamplesDescription& samples) { samples.texts = json.at("samples"); });
}

}  // namespace trainer::config
