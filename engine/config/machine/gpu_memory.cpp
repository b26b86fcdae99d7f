#include "engine/config/machine/gpu_memory.h"

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/config/document/problems.h"
#include "engine/config/document/scalar.h"
#include "engine/config/machine/gpu_cards.h"

namespace trainer::config {

std::optional<double> gigabytes(std::string text) {
  text = lower(text);
  for (const char* unit : {"gib", "gb", "g"})
    if (text.ends_with(unit)) {
      text.resize(text.size() - std::string(unit).size());
      break;
    }
  while (text.ends_with(" ")) text.pop_back();
  return parse_double(text);
}

GpuMemory gpu_memory_named(const std::string& text) {
  const char* const option = "--gpu_memory";
  if (!cards_named(text).empty()) {
    const GpuCard card = card_named(option, text);
    return {card.name, card.bytes()};
  }
  constexpr double kLeast = 0.1, kMost = 10000, kGiB = int64_t{1} << 30;
  const auto given = gigabytes(text);
  if (given && *given >= kLeast && *given <= kMost)
    return {fmt::format("a GPU with {:g} GiB", *given), static_cast<int64_t>(*given * kGiB)};
  throw ConfigError("{} must be a number of GiB (0.1 to 10000), or one of these cards; is '{}':\n  {}", option,
                    shown(text), all_card_names());
}

}  // namespace trainer::config
