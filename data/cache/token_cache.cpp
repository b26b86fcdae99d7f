#include "data/cache/token_cache.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include <nlohmann/json.hpp>

#include "data/cache/content_hash.h"
#include "data/json/parse_json.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace fs = std::filesystem;
namespace {

constexpr int kVersion = 2;
constexpr size_t kFlushBytes = size_t{1} << 20;

/// Element `index` of a file of T; it is aligned because mapped files begin at a page boundary.
template <class T>
T element(const MappedFile& file, int64_t index) {
  T value;
  std::memcpy(&value, file.bytes().data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

nlohmann::json to_json(const CacheFacts& facts) {
  nlohmann::json labels = nlohmann::json::array();
  for (const CachedLabel& label : facts.labels) labels.push_back({label.text, label.samples, label.first});
  return {{"version", kVersion},
          {"records", facts.records},
          {"samples", facts.samples},
          {"tokens", facts.tokens},
          {"cut", facts.cut},
          {"too_long", facts.too_long},
          {"too_short", facts.too_short},
          {"sources", facts.sources},
          {"labels", labels},
          {"notes", facts.notes},
          {"class_names", facts.class_names}};
}

/// The hash of all that a cache contains: `about` is about.json without the hash itself.
std::string seal_of(const nlohmann::json& about, const std::vector<std::string_view>& columns) {
  std::string all = about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (const std::string_view column : columns) all += "\n" + text_hash(column);
  return text_hash(all);
}

nlohmann::json read_about(const fs::path& folder) {
  const std::string file = (folder / kCacheFacts).string();
  return parse_json(read_file(file), file);
}

CacheFacts facts_from(const nlohmann::json& json, const fs::path& folder) {
  const std::string file = (folder / kCacheFacts).string();
  CacheFacts facts;
  try {
    if (json.at("version") != kVersion) throw InputError("{}: has another version. Remove its folder.", file);
    json.at("records").get_to(facts.records);
    json.at("samples").get_to(facts.samples);
    json.at("tokens").get_to(facts.tokens);
    json.at("cut").get_to(facts.cut);
    json.at("too_long").get_to(facts.too_long);
    json.at("too_short").get_to(facts.too_short);
    json.at("sources").get_to(facts.sources);
    json.at("notes").get_to(facts.notes);
    facts.class_names = json.value("class_names", std::vector<std::string>());  // not in older caches
    for (const auto& label : json.at("labels")) facts.labels.push_back({label.at(0), label.at(1), label.at(2)});
  } catch (const nlohmann::json::exception&) {
    throw InputError("{}: corrupt. Remove its folder: it is created again.", file);
  }
  return facts;
}

}  // namespace

TokenCacheWriter::Column::Column(const fs::path& path)
    : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (!file_) throw machine_error("write", path, errno);
}

void TokenCacheWriter::Column::append(const void* data, size_t bytes) {
  waiting_.append(static_cast<const char*>(data), bytes);
  if (waiting_.size() >= kFlushBytes) flush();
}

void TokenCacheWriter::Column::flush() {
  write_all(file_.get(), waiting_, path_);
  waiting_.clear();
}

TokenCacheWriter::TokenCacheWriter(const fs::path& folder)
    : folder_(folder),
      tokens_(folder / "tokens"),
      ends_(folder / "ends"),
      records_(folder / "records"),
      texts_(folder / "texts"),
      text_ends_(folder / "text_ends") {}

void TokenCacheWriter::add(std::span<const int32_t> source, std::span<const int32_t> second, int64_t record) {
  for (const auto part : {source, second}) {
    tokens_.append(part.data(), part.size_bytes());
    written_ += static_cast<int64_t>(part.size());
    ends_.append(&written_, sizeof written_);
  }
  records_.append(&record, sizeof record);
}

void TokenCacheWriter::add_text(const SampleText& text) {
  for (const std::string* part : {&text.source, &text.target}) {
    texts_.append(part->data(), part->size());
    text_bytes_ += static_cast<int64_t>(part->size());
    text_ends_.append(&text_bytes_, sizeof text_bytes_);
  }
}

void TokenCacheWriter::finish(const CacheFacts& facts) {
  std::vector<MappedFile> files;
  std::vector<std::string_view> columns;
  for (Column* column : {&tokens_, &ends_, &records_, &texts_, &text_ends_}) {
    column->flush();
    files.emplace_back(column->path());
    columns.push_back(files.back().bytes());
  }
  // Parsed again, so that invalid UTF-8 is replaced before it is hashed, as in the file.
  nlohmann::json json = bounded_json(to_json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  json["hash"] = seal_of(json, columns);
  const std::string text = json.dump(1);
  Column about(folder_ / kCacheFacts);
  about.append(text.data(), text.size());
  about.flush();
}

TokenCache::TokenCache(const fs::path& folder) : TokenCache(folder, read_about(folder)) {}

TokenCache::TokenCache(const fs::path& folder, nlohmann::json about)
    : facts_(facts_from(about, folder)),
      tokens_(folder / "tokens"),
      ends_(folder / "ends"),
      records_(folder / "records"),
      texts_(folder / "texts"),
      text_ends_(folder / "text_ends") {
  const auto samples = static_cast<uint64_t>(facts_.samples);
  const bool texts = !text_ends_.bytes().empty();
  int64_t in_sources = 0;
  for (const int64_t source : facts_.sources) in_sources += source;
  const bool fits = facts_.samples >= 0 && in_sources == facts_.samples && ends_.bytes().size() == samples * 16 &&
                    records_.bytes().size() == samples * 8 && (!texts || text_ends_.bytes().size() == samples * 16) &&
                    (samples == 0 || tokens_.bytes().size() ==
                                         static_cast<uint64_t>(element<int64_t>(ends_, 2 * facts_.samples - 1)) * 4);
  if (!fits)
    throw InputError("{}: its files are inconsistent. Remove the folder: it is created again.", folder.string());
  const nlohmann::json hash = about.value("hash", nlohmann::json());
  about.erase("hash");
  if (hash != seal_of(about, {tokens_.bytes(), ends_.bytes(), records_.bytes(), texts_.bytes(), text_ends_.bytes()}))
    throw InputError("{}: its content is not what was written. Remove the folder: it is created again.",
                     folder.string());
}

std::span<const int32_t> TokenCache::part(int64_t number) const {
  const int64_t begin = number == 0 ? 0 : element<int64_t>(ends_, number - 1), end = element<int64_t>(ends_, number);
  require(begin >= 0 && begin <= end && static_cast<size_t>(end) * 4 <= tokens_.bytes().size(), "tokens {} to {}",
          begin, end);
  return {reinterpret_cast<const int32_t*>(tokens_.bytes().data()) + begin, static_cast<size_t>(end - begin)};
}

CachedSample TokenCache::sample(int64_t index) const {
  require(index >= 0 && index < size(), "sample {} of {}", index, size());
  return {part(2 * index), part(2 * index + 1)};
}

int64_t TokenCache::record(int64_t index) const {
  require(index >= 0 && index < size(), "sample {} of {}", index, size());
  return element<int64_t>(records_, index);
}

SampleText TokenCache::text(int64_t index) const {
  if (text_ends_.bytes().empty()) return {};
  require(index >= 0 && index < size(), "sample {} of {}", index, size());
  const auto piece = [&](int64_t number) {
    const int64_t begin = number == 0 ? 0 : element<int64_t>(text_ends_, number - 1);
    const int64_t end = element<int64_t>(text_ends_, number);
    return std::string(texts_.bytes().substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  };
  return {piece(2 * index), piece(2 * index + 1)};
}

}  // namespace trainer::data
