#include "engine/config/machine/gpu_memory.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/config/document/problems.h"
#include "engine/config/document/scalar.h"

namespace trainer::config {
namespace {

constexpr double kGiB = int64_t{1} << 30;

/// `gib` is the memory that CUDA reports, less than the vendor's `size` because the driver and, on some cards, ECC take
/// a part. For about half of the cards it is the total capacity in PyTorch messages that users have posted, rounded
/// down; for the others (V100 16GB, A10G, RTX A6000, L4, H200 and newer) it is an estimate in the same proportion.
struct Card {
  const char* model;  // as words() leaves it
  int64_t size;       // GB
  double gib;
  const char* name;
};
constexpr Card kCards[] = {
    {"t4", 16, 14.5, "T4"},           {"v100", 16, 15.7, "V100 16GB"},
    {"v100", 32, 31.7, "V100 32GB"},  {"a10", 24, 21.9, "A10"},
    {"a10g", 24, 21.9, "A10G"},       {"a30", 24, 23.5, "A30"},
    {"a6000", 48, 47.4, "RTX A6000"}, {"a100", 40, 39.3, "A100 40GB"},
    {"a100", 80, 79.1, "A100 80GB"},  {"l4", 24, 21.9, "L4"},
    {"l20", 48, 44.4, "L20"},         {"l40", 48, 44.3, "L40"},
    {"l40s", 48, 44.3, "L40S"},       {"6000ada", 48, 44.4, "RTX 6000 Ada"},
    {"h100", 80, 79.1, "H100 80GB"},  {"h100nvl", 94, 93.0, "H100 NVL"},
    {"h200", 141, 139.7, "H200"},     {"b200", 180, 178.3, "B200"},
    {"3090", 24, 23.6, "RTX 3090"},   {"4090", 24, 23.5, "RTX 4090"},
    {"5090", 32, 31.3, "RTX 5090"},
};

/// Parts of a card's name that don't affect its memory.
constexpr const char* kIdle[] = {"nvidia", "geforce", "tesla", "rtx",   "gpu",  "sxm",   "sxm2",
                                 "sxm4",   "sxm5",    "pcie",  "hbm2e", "hbm3", "hbm3e", "generation"};

/// The runs of letters and digits, in lowercase.
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all(1);
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0)
      all.back() += static_cast<char>(std::tolower(c));
    else if (!all.back().empty())
      all.emplace_back();
  }
  std::erase_if(all, [](const std::string& word) {
    return word.empty() || std::find(std::begin(kIdle), std::end(kIdle), word) != std::end(kIdle);
  });
  return all;
}

/// 80 for "80", "80gb", "80g" and "80gib"; nullopt for other words.
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

std::vector<const Card*> cards_named(const std::string& text) {
  std::string model;
  std::optional<double> size;
  for (const std::string& word : words(text)) {
    const auto number = model.empty() ? std::nullopt : gigabytes(word);
    if (number)
      size = number;
    else
      model += word;
  }
  std::vector<const Card*> found;
  for (const Card& card : kCards)
    if (card.model == model && (!size || *size == static_cast<double>(card.size))) found.push_back(&card);
  return found;
}

std::string all_names() {
  std::vector<const char*> names;
  for (const Card& card : kCards) names.push_back(card.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

GpuMemory gpu_memory_named(const std::string& text) {
  const auto cards = cards_named(text);
  if (cards.size() == 1) return {cards[0]->name, static_cast<int64_t>(cards[0]->gib * kGiB)};
  if (cards.size() > 1)
    throw ConfigError("--gpu_memory {}: there are {} and {}: specify one of them", shown(text), cards[0]->name,
                      cards[1]->name);
  constexpr double kLeast = 0.1, kMost = 10000;
  const auto given = gigabytes(text);
  if (given && *given >= kLeast && *given <= kMost)
    return {fmt::format("a GPU with {:g} GiB", *given), static_cast<int64_t>(*given * kGiB)};
  throw ConfigError("--gpu_memory must be a number of GiB (0.1 to 10000), or one of these cards; is '{}':\n  {}",
                    shown(text), all_names());
}

}  // namespace trainer::config
