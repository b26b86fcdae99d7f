#include "engine/config/machine/gpu_cards.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/config/document/problems.h"
#include "engine/config/machine/gpu_memory.h"

namespace trainer::config {
namespace {

/// Memory: what CUDA reports is less than the vendor's size, because the driver and, on some cards, ECC take a part. For
/// about half of the cards it is the total capacity in PyTorch messages that users have posted, rounded down; for the
/// others (V100 16GB, A10G, RTX A6000, L4, H200 and newer) it is an estimate in the same proportion.
/// Rates: NVIDIA's data sheets and architecture white papers. Where these only list rates with sparsity (L4, L40S, Ada,
/// Hopper, Blackwell), half of them; for GeForce cards, the rates with sums in fp32. Of cards that are sold in several
/// forms (V100, A100, H100, H200, B200), the one with NVLink and a switch between 8 GPUs (SXM); a bridge between two
/// cards (A30, RTX A6000, H100 NVL, RTX 3090) isn't counted, as it doesn't connect more than two.
/// PCIe: 3.0 x16 15.75, 4.0 31.5, 5.0 63 GB/s.
/// Best products: measured for A100, H100 (H200 is the same) and B200, in stas00/ml-engineering, compute/accelerator
/// (Maximum Achievable Matmul FLOPS, read in 2026); assumed for the others.
constexpr GpuCard kCards[] = {
    {"t4", 16, 14.5, "T4", 65, 0, 8.1, 320, 15.75},
    {"v100", 16, 15.7, "V100 16GB", 125, 0, 15.7, 900, 150},
    {"v100", 32, 31.7, "V100 32GB", 125, 0, 15.7, 900, 150},
    {"a10", 24, 21.9, "A10", 125, 62.5, 31.2, 600, 31.5},
    {"a10g", 24, 21.9, "A10G", 70, 35, 35, 600, 31.5},
    {"a30", 24, 23.5, "A30", 165, 82, 10.3, 933, 31.5},
    {"a6000", 48, 47.4, "RTX A6000", 154.8, 77.4, 38.7, 768, 31.5},
    {"a100", 40, 39.3, "A100 40GB", 312, 156, 19.5, 1555, 300, 0.869},
    {"a100", 80, 79.1, "A100 80GB", 312, 156, 19.5, 2039, 300, 0.869},
    {"l4", 24, 21.9, "L4", 121, 60, 30.3, 300, 31.5},
    {"l20", 48, 44.4, "L20", 119.5, 59.8, 59.8, 864, 31.5},
    {"l40", 48, 44.3, "L40", 181, 90.5, 90.5, 864, 31.5},
    {"l40s", 48, 44.3, "L40S", 362, 183, 91.6, 864, 31.5},
    {"6000ada", 48, 44.4, "RTX 6000 Ada", 364.2, 182.1, 91.1, 960, 31.5},
    {"h100", 80, 79.1, "H100 80GB", 989, 494.5, 67, 3350, 450, 0.803, true},
    {"h100nvl", 94, 93.0, "H100 NVL", 835, 417.5, 60, 3900, 63, 0.8, true},
    {"h200", 141, 139.7, "H200", 989, 494.5, 67, 4800, 450, 0.803, true},
    {"b200", 180, 178.3, "B200", 2250, 1125, 75, 8000, 900, 0.776, true},
    {"3090", 24, 23.6, "RTX 3090", 71, 35.6, 35.6, 936, 31.5},
    {"4090", 24, 23.5, "RTX 4090", 165.2, 82.6, 82.6, 1008, 31.5},
    {"5090", 32, 31.3, "RTX 5090", 209.5, 104.8, 104.8, 1792, 63},
};

/// Parts of a card's name that don't tell cards apart.
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

}  // namespace

int64_t GpuCard::bytes() const {
  return static_cast<int64_t>(gib * static_cast<double>(int64_t{1} << 30));
}

std::vector<const GpuCard*> cards_named(const std::string& text) {
  std::string model;
  std::optional<double> size;
  for (const std::string& word : words(text)) {
    const auto number = model.empty() ? std::nullopt : gigabytes(word);
    if (number)
      size = number;
    else
      model += word;
  }
  std::vector<const GpuCard*> found;
  for (const GpuCard& card : kCards)
    if (card.model == model && (!size || *size == static_cast<double>(card.size))) found.push_back(&card);
  return found;
}

std::string all_card_names() {
  std::vector<const char*> names;
  for (const GpuCard& card : kCards) names.push_back(card.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const GpuCard& card_named(const std::string& option, const std::string& text) {
  const auto cards = cards_named(text);
  if (cards.size() == 1) return *cards[0];
  if (cards.size() > 1)
    throw ConfigError("{} {}: there are {} and {}: specify one of them", option, shown(text), cards[0]->name,
                      cards[1]->name);
  throw ConfigError("{} must be one of these cards; is '{}':\n  {}", option, shown(text), all_card_names());
}

}  // namespace trainer::config
