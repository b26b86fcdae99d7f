#include "engine/prepare/cache.h"

#include <chrono>
#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "data/cache/cache_list.h"
#include "data/cache/prepare.h"
#include "engine/base/errors.h"
#include "engine/base/help_text.h"
#include "engine/base/human.h"
#include "engine/base/listed.h"
#include "engine/base/log.h"

namespace trainer::prepare {
namespace {

namespace fs = std::filesystem;

double seconds_since(fs::file_time_type time) {
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - time).count();
}

std::string line_of(const data::CacheEntry& entry) {
  const auto count = [](int64_t value) { return value < 0 ? "?" : human_count(static_cast<double>(value)); };
  return fmt::format("{:<42} {:>10} {:>9} {:>9}  {} ago", entry.name, human_bytes(entry.bytes), count(entry.samples),
                     count(entry.tokens), human_seconds(seconds_since(entry.used)));
}

int64_t bytes_of(const std::vector<data::CacheEntry>& entries) {
  int64_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.bytes;
  return bytes;
}

void list(const fs::path& folder, bool as_json) {
  const auto entries = data::list_caches(folder);
  if (as_json) {
    nlohmann::ordered_json caches = nlohmann::ordered_json::array();
    for (const auto& entry : entries)
      caches.push_back({{"name", entry.name},
                        {"bytes", entry.bytes},
                        {"samples", entry.samples},
                        {"tokens", entry.tokens},
                        {"seconds_since_use", seconds_since(entry.used)}});
    const nlohmann::ordered_json all = {{"folder", folder.string()}, {"caches", caches}};
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  fmt::print("{:<42} {:>10} {:>9} {:>9}  {}\n", "cache", "size", "samples", "tokens", "used");
  for (const auto& entry : entries) fmt::print("{}\n", line_of(entry));
  fmt::print("{} in {} caches, in {}\n", human_bytes(bytes_of(entries)), entries.size(), folder.string());
}

void prune(const fs::path& folder, const data::CacheLimits& limits, bool dry_run) {
  const auto entries = beyond(data::list_caches(folder), limits, fs::file_time_type::clock::now());
  std::vector<data::CacheEntry> removed;
  for (const auto& entry : entries) {
    const bool gone = dry_run || remove_cache(folder, entry);
    fmt::print("{}  {}\n", line_of(entry), !gone ? "in use, kept" : dry_run ? "would be removed" : "removed");
    if (gone) removed.push_back(entry);
  }
  fmt::print("{} {} in {} caches, in {}\n", dry_run ? "would free" : "freed", human_bytes(bytes_of(removed)),
             removed.size(), folder.string());
}

}  // namespace

void prune_caches(const config::DataConfig& config) {
  constexpr double kGb = 1e9;
  data::CacheLimits limits;
  if (config.cache_max_days > 0) limits.age = std::chrono::hours(24 * config.cache_max_days);
  if (config.cache_max_gb > 0) limits.bytes = static_cast<int64_t>(config.cache_max_gb * kGb);
  const fs::path folder = data::cache_folder(config);
  std::vector<data::CacheEntry> removed;
  try {
    for (const auto& entry : data::beyond(data::list_caches(folder), limits, fs::file_time_type::clock::now()))
      if (data::remove_cache(folder, entry)) removed.push_back(entry);
  } catch (const Error& error) {  // the run doesn't need it
    log::warning("old token caches stay: {}", error.what());
  }
  if (!removed.empty())
    log::info("removed {} ({}) from {}, by data.cache_max_days and data.cache_max_gb",
              counted(removed.size(), "old token cache", "old token caches"), human_bytes(bytes_of(removed)),
              folder.string());
}

int cache_command(const std::vector<std::string>& args) {
  CLI::App app("List the token caches of this machine, or remove old ones.", "trainer cache");
  std::string folder;
  bool as_json = false, dry_run = false;
  int64_t days = -1;
  app.add_option("--cache_dir", folder, "Their folder, as data.cache_dir");
  app.add_flag("--json", as_json, "Prints the list as JSON");
  CLI::App* const pruned = app.add_subcommand("prune", "Remove unused caches, or the least recently used");
  pruned->footer("Examples:\n  trainer cache prune --older_than 30\n  trainer cache prune --max_size 20GB --dry_run");
  pruned->add_option("--older_than", days, "Days since the last use")->check(CLI::Range(int64_t{0}, int64_t{100'000}));
  uint64_t most = 0;
  const auto* const limit = pruned->add_option("--max_size", most, "Size of all that is kept, such as 20GB")
                                ->transform(CLI::AsSizeValue(false).description(""));
  pruned->add_flag("--dry_run", dry_run, "Prints what would be removed, and removes nothing");
  app.footer(
      "Runs reuse a cache while data, tokenizer and options are the same. A removed one is written again when it is "
      "needed.\n\nExamples:\n"
      "  trainer cache\n"
      "  trainer cache prune --older_than 30\n"
      "  trainer cache prune --max_size 20GB --dry_run");
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 expects them reversed
    if (*pruned && days < 0 && limit->count() == 0)
      throw CLI::RequiredError("prune: --older_than DAYS or --max_size SIZE");
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help_in_80_columns(app.help()));
    return kDone;
  } catch (const CLI::ParseError& error) {
    throw ConfigError("{}; `trainer cache --help` lists the flags", error.what());
  }
  config::DataConfig config;
  config.cache_dir = folder;
  const fs::path place = data::cache_folder(config);
  if (!*pruned) {
    list(place, as_json);
    return kDone;
  }
  data::CacheLimits limits;
  if (days >= 0) limits.age = std::chrono::hours(24 * days);
  if (limit->count() > 0) limits.bytes = static_cast<int64_t>(most);
  prune(place, limits, dry_run);
  return kDone;
}

}  // namespace trainer::prepare
