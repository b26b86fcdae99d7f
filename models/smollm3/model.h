#pragma once

#include "models/registry.h"

namespace trainer::models::smollm3 {

std::unique_ptr<Model> build(const BuildRequest& request);

}  // namespace trainer::models::smollm3
