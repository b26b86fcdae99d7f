#pragma once

#include <string>

#include "models/llama/config.h"

namespace trainer::models::gemma {

enum class Generation { k1, k2, k3 };

/// config.json of a Gemma 1, 2 or 3 text model.
struct Config : llama::Config {
  Generation generation = Generation::k1;
};

/// Throws InputError (ConfigError when the request is strict) that names every invalid value.
Config parse_config(const BuildRequest& request, Generation generation);

/// config.json as transformers 5 writes it; older versions are not supported.
std::string config_json(const Config& config);

}  // namespace trainer::models::gemma
