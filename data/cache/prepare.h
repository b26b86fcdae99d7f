// Tokenizes once, for all ranks and later runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "data/cache/token_cache.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/sections/data.h"

namespace trainer::data {

/// Called with the progress of a preparation: the fraction of the files' bytes that was read, and the samples made.
using PrepareProgress = std::function<void(double part, int64_t samples)>;

struct PrepareRequest {
  const config::DataConfig& config;
  const config::DataSource& source;
  bool keep_texts = false;
  int64_t max_records = 0;  // 0: all
  /// Which ones: the first, or those that this seed draws. Their order is that of the files either way.
  std::optional<int64_t> seed{};
  PrepareProgress progress{};
};

/// The tokenized samples of a source: from the cache if nothing they depend on has changed (the files' content, the
/// tokenizer's files, the options of `data`), else made and cached.
///
/// The cache is a folder `<cache_dir>/<name>` for each such combination, where `name` is the hash of all of it. One
/// process at a time writes it, under a hidden name, and publishes it atomically: concurrent launches, a kill, a full
/// disk or a file that changes meanwhile leave a complete folder or none.
/// Errors: InputError for invalid data, or data that changes while it is read; MachineError.
std::shared_ptr<const TokenCache> prepare(const PrepareRequest& request, const Tokenizer& tokenizer);

/// The column that data.target names, alone or as the only one of a template.
std::string target_column(const config::DataConfig& config);

/// The folder of the token caches.
std::filesystem::path cache_folder(const config::DataConfig& config);

}  // namespace trainer::data
