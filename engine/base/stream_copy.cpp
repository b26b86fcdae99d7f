#include "engine/base/stream_copy.h"

#include <emmintrin.h>  // every x86-64 has SSE2

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace trainer {
namespace {

constexpr size_t kLine = 64, kPage = 4096, kPagesAtOnce = 4;
constexpr size_t kAhead = 4 * kLine;  // prefetch distance

void copy_line(char* to, const char* from) {
  const auto* const source = reinterpret_cast<const __m128i*>(from);
  auto* const target = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, a);
  _mm_stream_si128(target + 1, b);
  _mm_stream_si128(target + 2, c);
  _mm_stream_si128(target + 3, d);
}

/// Copies lines of several pages in turn, which takes a quarter less time than one page after the other.
void copy_pages(char* to, const char* from) {
  for (size_t line = 0; line < kPage; line += kLine) {
    for (size_t page = 0; page < kPagesAtOnce; ++page) {
      const size_t at = page * kPage + line;
      _mm_prefetch(from + at + kAhead, _MM_HINT_T0);
      copy_line(to + at, from + at);
    }
  }
}

}  // namespace

void stream_copy(void* to, const void* from, size_t size) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  const size_t head = std::min(size, (kLine - reinterpret_cast<uintptr_t>(out) % kLine) % kLine);
  if (head > 0) std::memcpy(out, in, head);
  size_t done = head;
  for (; done + kPagesAtOnce * kPage <= size; done += kPagesAtOnce * kPage) copy_pages(out + done, in + done);
  for (; done + kLine <= size; done += kLine) copy_line(out + done, in + done);
  _mm_sfence();
  if (done < size) std::memcpy(out + done, in + done, size - done);
}

}  // namespace trainer
