// Why a text is not YAML, for people who wrote it by hand.
#pragma once

#include <string>

namespace trainer::config {

/// `message` is yaml-cpp's, about line `line` (from 1) of `text`.
std::string yaml_mistake(const std::string& text, int line, const std::string& message);

}  // namespace trainer::config
