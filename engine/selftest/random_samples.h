// Samples for the self-test: random tokens, with varying lengths.
#pragma once

#include "data/samples/memory_samples.h"
#include "engine/selftest/setting.h"

namespace trainer::selftest {

data::MemorySamples random_samples(const TinyModel& model);

}  // namespace trainer::selftest
