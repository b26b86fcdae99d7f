// The parts of translate_deepspeed.
#pragma once

#include "engine/config/ds_config.h"
#include "engine/config/translate/translation.h"

namespace trainer::config {

/// The content of a ds_config.json.
class DsDocument {
 public:
  explicit DsDocument(Draft& draft) : draft_(draft) {}

  /// Reads the file that `source` names, or its inline keys. Returns false on failure.
  bool read(const GivenKey& source);

  const DsConfig& config() const { return config_; }
  /// The option at `path` ("zero_optimization.stage") with its value.
  GivenKey key(const std::string& path);
  /// True if the document has it, including as "auto".
  bool has(const std::string& path) const { return draft_.is_set(kPrefix + path); }
  /// True if its value can't be used.
  bool failed(const std::string& path) const { return draft_.problems.about(kPrefix + path); }

  /// Sets `to` to the value of `path`, unless that is "auto" or unusable.
  void set(const std::string& path, const std::string& to);
  /// If `path` is left out, sets `to` to DeepSpeed's default for the given `type`.
  void assume(const std::string& path, const Node& value, const std::string& type, const std::string& to);

 private:
  static inline const std::string kPrefix = "ds_config.";
  Draft& draft_;
  DsConfig config_;
};

/// training.deepspeed; its value is null if it requests nothing.
GivenKey deepspeed_argument(Draft& draft);

/// The key with the ds_config.json: training.deepspeed or deepspeed_config_file. Null: none.
GivenKey ds_config_source(Draft& draft);

/// Pitfall of Accelerate: keys next to deepspeed_config_file. Keys that differ from the file are problems.
void check_beside_file(Draft& draft, DsDocument& ds);

/// The stage and its offloading. The value of a key that isn't given is null.
struct ZeroKeys {
  GivenKey stage, offload_optimizer, offload_param;
  GivenKey pin_optimizer = {}, pin_param = {};  // whether the host's memory is pinned
};
void translate_zero(Draft& draft, const ZeroKeys& keys);

// The rest of a ds_config.json.
void translate_precision(Draft& draft, DsDocument& ds);
void translate_batch(Draft& draft, DsDocument& ds);
void translate_optimizer(Draft& draft, DsDocument& ds);
void translate_scheduler(Draft& draft, DsDocument& ds);

}  // namespace trainer::config
