// Tokenising once, for all ranks and all later runs.
#pragma once

#include <functional>
#include <memory>

#include "data/token_store.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// Told now and then how far a preparation is: the part of the files' bytes that was read, and samples made of it.
using PrepareProgress = std::function<void(double part, int64_t samples)>;

struct PrepareRequest {
  const config::DataConfig& config;
  const config::DataSource& source;
  bool keep_texts = false;
  int64_t max_records = 0;  // 0: all
  PrepareProgress progress{};
};

/// The tokenised samples of a source: from the cache when nothing they depend on has changed (the files' content, the
/// tokenizer's files, the options of `data`), else made now and kept there.
///
/// The cache is a folder `<cache_dir>/<name>` for each such combination, `name` being the hash of all of it. It is
/// written under a hidden name and published whole, by one process at a time: two launches at once, a kill, a full disk
/// or a file that changes meanwhile leave a whole folder or none.
/// Errors: InputError for data that can't be used, or that changes while it is read; MachineError.
std::shared_ptr<const TokenStore> prepare(const PrepareRequest& request, const Tokenizer& tokenizer);

/// Where prepared samples are kept.
std::filesystem::path cache_folder(const config::DataConfig& config);

}  // namespace trainer::data
