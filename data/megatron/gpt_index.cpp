#include "data/megatron/gpt_index.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "data/megatron/numpy_random.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// The number of epochs over the corpus, and whether the last one is shuffled separately: it is when only a small part
/// of it is needed, so that its documents don't repeat early in the run.
struct Epochs {
  int64_t tokens = 0;  // of one epoch
  int64_t count = 1;
  int64_t samples_before_last = 0;  // when the last one is shuffled separately; else 0
  bool last_apart = false;
};

constexpr int64_t kMost = std::numeric_limits<uint32_t>::max() - 1;  // of slots and of samples

int64_t count_tokens(const SequenceIndex& corpus, const SequenceRange& range) {
  int64_t tokens = 0;
  for (int64_t i = range.begin; i < range.end; ++i) tokens += corpus.length(i);
  return tokens;
}

/// The number of full samples in `tokens` tokens: the last token of a sample is the first of the next.
int64_t full_samples(int64_t tokens, int64_t length) {
  return tokens > 0 ? (tokens - 1) / length : 0;
}

void check_counts(const GptIndexRequest& request, const Epochs& epochs) {
  int64_t slots = 0, tokens = 0;
  const bool fit = !__builtin_mul_overflow(epochs.count, request.sequences.size(), &slots) && slots <= kMost &&
                   !__builtin_mul_overflow(epochs.count, epochs.tokens, &tokens) &&
                   tokens / request.sequence_length < kMost;
  if (fit) return;
  throw ConfigError(
      "data.megatron: {} epochs of {} sequences and {} tokens in samples of {} tokens exceed the limit of {} "
      "sequences or samples per index.\nUse fewer samples, or longer ones.",
      epochs.count, request.sequences.size(), epochs.tokens, request.sequence_length, kMost);
}

void check_request(const GptIndexRequest& request) {
  if (request.seed < 0 || request.seed > std::numeric_limits<uint32_t>::max()) {
    throw ConfigError("seed: {} is out of range; Megatron's sample order needs a seed in [0, 4294967295].",
                      request.seed);
  }
  if (request.sequence_length < 1 || request.sequence_length > std::numeric_limits<int32_t>::max()) {
    throw ConfigError("data.megatron.sequence_length: {} is out of range; a sample has 1 to 2147483647 tokens.",
                      request.sequence_length);
  }
  if (request.samples.value_or(0) > kMost) {
    throw ConfigError("{} samples are requested; an index holds at most {}.", *request.samples, kMost);
  }
}

Epochs plan_epochs(const SequenceIndex& corpus, const GptIndexRequest& request) {
  Epochs epochs{.tokens = count_tokens(corpus, request.sequences)};
  const int64_t length = request.sequence_length;
  if (request.samples.value_or(0) > 0) {
    if (epochs.tokens == 0) {
      throw InputError(
          "{} samples are requested, but these {} sequences have no tokens.\nIncrease their part in "
          "data.megatron.split, or use a larger corpus.",
          *request.samples, request.sequences.size());
    }
    epochs.count = *request.samples * length / epochs.tokens + 1;  // one more token, for the last label
  }
  check_counts(request, epochs);
  if (epochs.count == 1) return epochs;
  const int64_t before = full_samples((epochs.count - 1) * epochs.tokens, length);
  const int64_t of_one = full_samples(epochs.tokens, length);
  epochs.last_apart = *request.samples - before < static_cast<int64_t>(0.80 * static_cast<double>(of_one));
  if (epochs.last_apart) epochs.samples_before_last = before;
  return epochs;
}

/// Appends `times` copies of the numbers in the range, shuffled.
void append_shuffled(std::vector<uint32_t>& order, int64_t begin, int64_t end, int64_t times, NumpyRandom& random) {
  const size_t old = order.size();
  const auto count = static_cast<size_t>(end - begin);
  order.resize(old + count * static_cast<size_t>(times));
  for (auto to = order.begin() + static_cast<ptrdiff_t>(old); to != order.end(); to += end - begin) {
    std::iota(to, to + (end - begin), static_cast<uint32_t>(begin));
  }
  random.shuffle(std::span(order).subspan(old));
}

int64_t count_samples(const Epochs& epochs, const GptIndexRequest& request) {
  const int64_t tokens = epochs.count * epochs.tokens;
  if (request.drop_last_partial || tokens == 0) return full_samples(tokens, request.sequence_length);
  // In single precision, as in Megatron.
  const float quotient = static_cast<float>(tokens - 1) / static_cast<float>(request.sequence_length);
  return static_cast<int64_t>(std::ceil(quotient));
}

/// Sample i begins with token i * length of the concatenated sequences; the last entry is the end of the last sample.
std::vector<GptIndex::Start> find_starts(const SequenceIndex& corpus, const std::vector<uint32_t>& order,
                                         int64_t samples, int64_t length) {
  std::vector<GptIndex::Start> starts(1);
  starts.reserve(static_cast<size_t>(samples) + 1);
  int64_t slot = 0, offset = 0;
  const auto last_slot = static_cast<int64_t>(order.size()) - 1;
  for (int64_t i = 1; i <= samples; ++i) {
    offset += length;
    while (slot < last_slot && offset >= corpus.length(order[static_cast<size_t>(slot)])) {
      offset -= corpus.length(order[static_cast<size_t>(slot++)]);
    }
    // Past the end of the corpus: the tail of a partial sample.
    offset = std::min(offset, std::max<int64_t>(0, corpus.length(order[static_cast<size_t>(slot)]) - 1));
    starts.push_back({static_cast<uint32_t>(slot), static_cast<uint32_t>(offset)});
  }
  return starts;
}

}  // namespace

GptIndex::GptIndex(const SequenceIndex& corpus, const GptIndexRequest& request) {
  check_request(request);
  const Epochs epochs = plan_epochs(corpus, request);
  const auto [begin, end] = request.sequences;
  NumpyRandom random(static_cast<uint32_t>(request.seed));
  append_shuffled(sequence_order_, begin, end, epochs.count - (epochs.last_apart ? 1 : 0), random);
  if (epochs.last_apart) append_shuffled(sequence_order_, begin, end, 1, random);
  const int64_t samples = count_samples(epochs, request);
  starts_ = find_starts(corpus, sequence_order_, samples, request.sequence_length);
  if (epochs.last_apart) append_shuffled(sample_order_, 0, epochs.samples_before_last, 1, random);
  append_shuffled(sample_order_, epochs.samples_before_last, samples, 1, random);
}

std::vector<SamplePiece> GptIndex::pieces(const SequenceIndex& corpus, int64_t k) const {
  require(k >= 0 && k < size(), "sample {} of {}", k, size());
  const size_t sample = sample_order_[static_cast<size_t>(k)];
  const Start first = starts_[sample], last = starts_[sample + 1];
  std::vector<SamplePiece> pieces;
  for (int64_t slot = first.slot; slot <= last.slot; ++slot) {
    const int64_t sequence = sequence_order_[static_cast<size_t>(slot)];
    const int64_t begin = slot == first.slot ? first.offset : 0;
    // The last token is the label of the one before; a partial sample may end with an empty sequence.
    const int64_t end =
        slot == last.slot ? std::min<int64_t>(last.offset + 1, corpus.length(sequence)) : corpus.length(sequence);
    if (end > begin) pieces.push_back({sequence, begin, end - begin});
  }
  return pieces;
}

}  // namespace trainer::data
