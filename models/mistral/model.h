#pragma once

#include "models/registry.h"

namespace trainer::models::mistral {

std::unique_ptr<Model> build(const BuildRequest& request);

}  // namespace trainer::models::mistral
