// The table of cards.
#include "engine/config/machine/gpu_cards.h"

#include <sstream>

#include <gtest/gtest.h>

#include "engine/base/errors.h"

namespace trainer::config {
namespace {

TEST(GpuCards, RatesArePlausible) {
  std::istringstream names(all_card_names());
  int cards = 0;
  for (std::string name; std::getline(names, name, ',');) {
    SCOPED_TRACE(name);
    const GpuCard& card = card_named("--device", name);
    ++cards;
    EXPECT_GE(card.half, 2 * card.tf32 - 4) << "TF32 runs at half the rate";
    EXPECT_GE(card.half, card.fp32);
    EXPECT_TRUE(card.tf32 == 0 || card.tf32 >= card.fp32 - 1);
    const double flops_per_byte = card.half * 1e3 / card.memory;
    EXPECT_GT(flops_per_byte, 70) << "in half precision";
    EXPECT_LT(flops_per_byte, 425);
    EXPECT_LT(card.link, card.memory / 3);
    EXPECT_LT(card.gib, static_cast<double>(card.size)) << "GiB are larger than GB, but CUDA reports less";
    EXPECT_GT(card.gib, 0.88 * static_cast<double>(card.size));
  }
  EXPECT_EQ(cards, 21);
}

TEST(GpuCards, NamesTheOptionInErrors) {
  EXPECT_STREQ(card_named("--device", "nvidia h100").name, "H100 80GB");
  try {
    card_named("--device", "80");
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()).find("--device must be one of these cards; is '80':\n  T4, "), 0U) << error.what();
  }
  EXPECT_THROW(card_named("--device", "A100"), ConfigError) << "40 or 80 GB";
}

}  // namespace
}  // namespace trainer::config
