#include "models/nn/plain/plain.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace trainer::nn {
namespace {

std::atomic<int> everywhere{0};  // how many ask for it

bool asked_by_environment() {
  static const bool asked = [] {
    const char* const value = std::getenv("TRAINER_PLAIN_LAYERS");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return asked;
}

}  // namespace

bool runs_plain(const at::Tensor& x) {
  if (everywhere > 0 || asked_by_environment()) return true;
  return !x.is_cpu() && !x.is_meta();
}

PlainEverywhere::PlainEverywhere() {
  ++everywhere;
}

PlainEverywhere::~PlainEverywhere() {
  --everywhere;
}

}  // namespace trainer::nn
