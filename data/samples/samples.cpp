#include "data/samples/samples.h"

namespace trainer::data {

int64_t token_count(const Samples& samples) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < samples.size(); ++i) tokens += samples.tokens(i);
  return tokens;
}

}  // namespace trainer::data
