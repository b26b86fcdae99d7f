#include "models/nn/single_query.h"

#include <algorithm>
#include <vector>

#include "models/nn/attention_rows.h"
#include "models/nn/head_rows.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"

namespace trainer::nn {
namespace {

struct Scratch {
  HeadRows::Memory query, rows, out;
  std::vector<float> scores, slope;
};

/// Consecutive query heads of a sample.
struct Heads {
  int64_t d;
  std::vector<int64_t> in_row;  // of each: where its numbers begin in a row of the keys or values that these heads read

  int64_t size() const { return std::ssize(in_row); }
};

/// scores[head, row] = scale * query . key, for all rows of `keys`.
TRAINER_KERNEL void score(const Heads& heads, const float* query, float scale, Matrix keys, int64_t rows, float* scores,
                          int64_t stride) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t head = 0; head < heads.size(); ++head) {
      const float *q = query + head * heads.d, *key = keys.data + row * keys.stride + heads.in_row[head];
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < heads.d; ++i) sum += q[i] * key[i];
      scores[head * stride + row] = scale * sum;
    }
}

/// out[head] += probability * value, for all rows of `values`.
TRAINER_KERNEL void add_values(const Heads& heads, const float* probabilities, int64_t stride, Matrix values,
                               int64_t rows, float* out) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t head = 0; head < heads.size(); ++head) {
      const float *value = values.data + row * values.stride + heads.in_row[head],
                  p = probabilities[head * stride + row];
      float* const to = out + head * heads.d;
#pragma omp simd
      for (int64_t i = 0; i < heads.d; ++i) to[i] += p * value[i];
    }
}

/// What the samples of a step have in common.
struct Step {
  const at::Tensor &q, &k, &v, &bias, &out;
  const Layout &queries, &keys;
  const AttentionOptions& options;

  int64_t d() const { return q.size(1) / options.heads; }
};

/// Calls f(rows, number of the first, count) for the rows of `span` in order: all of them where they are in the tensor,
/// else few, which are widened.
template <class F>
void for_each_rows(const at::Tensor& of, Span span, int64_t first_head, int64_t heads, int64_t d,
                   HeadRows::Memory& memory, const F& f) {
  constexpr int64_t kWidened = 8;
  const int64_t most = of.scalar_type() == at::kFloat ? span.length : kWidened;
  for (int64_t row = 0; row < span.length; row += most) {
    const int64_t count = std::min(most, span.length - row);
    f(HeadRows(of, {span.begin + row, count}, first_head, d, heads).read(memory), row, count);
  }
}

/// Query heads [first, end) of a sample.
void attend(const Step& s, int64_t sample, int64_t first, int64_t end, Scratch& scratch) {
  const int64_t group = s.options.group(), pair = first / group, pairs = (end - 1) / group + 1 - pair;
  Heads heads{.d = s.d(), .in_row = {}};
  for (int64_t head = first; head < end; ++head) heads.in_row.push_back((head / group - pair) * heads.d);
  const Span own = s.queries.spans[sample], all = s.keys.spans[sample];
  const int64_t position = all.length - 1;
  const KeyRange seen = visible_keys(s.options, position, all.length);
  const Span span{all.begin + seen.first, seen.size()};
  const int64_t n = span.length;
  scratch.scores.resize(heads.size() * n);
  float* const scores = scratch.scores.data();
  const Matrix query = HeadRows(s.q, own, first, heads.d, heads.size()).read(scratch.query);
  for_each_rows(s.k, span, pair, pairs, heads.d, scratch.rows, [&](const Matrix& rows, int64_t row, int64_t count) {
    score(heads, query.data, static_cast<float>(s.options.scale), rows, count, scores + row, n);
  });
  for (int64_t head = first; head < end; ++head) {
    float* const row = scores + (head - first) * n;
    if (s.options.soft_cap > 0) {
      scratch.slope.resize(n);
      cap_scores(static_cast<float>(s.options.soft_cap), n, row, scratch.slope.data());
    }
    if (s.bias.defined()) {
      const int64_t distances = s.bias.size(1);
      add_row(s.bias.const_data_ptr<float>() + head * distances + (distances - 1) / 2 + seen.first - position, n, row);
    }
    softmax_row(row, n, {0, n});
  }
  const HeadRows out(s.out, own, first, heads.d, heads.size());
  const HeadRows::Place to = out.zeros(scratch.out);
  for_each_rows(s.v, span, pair, pairs, heads.d, scratch.rows, [&](const Matrix& rows, int64_t row, int64_t count) {
    add_values(heads, scores + row, n, rows, count, to.data);
  });
  out.finish(scratch.out);
}

}  // namespace

void attend_single_queries(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                           const Layout& queries, const Layout& keys, const AttentionOptions& options,
                           const at::Tensor& out) {
  const Step step{q, k, v, bias, out, queries, keys, options};
  const int64_t heads = options.heads;
  std::vector<int64_t> samples;
  for (int64_t s = 0; s < queries.samples(); ++s)
    if (is_single_query(queries, s, options)) samples.push_back(s);
  parallel_for(0, rows_to_compute(q, std::ssize(samples) * heads), 1, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t at = begin, first = 0, last = 0; at < end; at += last - first) {
      first = at % heads;
      last = std::min(heads, first + end - at);
      attend(step, samples[at / heads], first, last, scratch);
    }
  });
}

}  // namespace trainer::nn
