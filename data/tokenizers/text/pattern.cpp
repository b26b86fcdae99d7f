#include "data/tokenizers/text/pattern.h"

#include <time.h>

#include <algorithm>
#include <new>

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "data/tokenizers/models/chars.h"
#include "data/tokenizers/text/pattern_syntax.h"
#include "engine/base/errors.h"

namespace trainer::data {

template <auto kFree>
struct FreePcre2 {
  template <class T>
  void operator()(T* value) const {
    kFree(value);
  }
};
using Code = std::unique_ptr<pcre2_code, FreePcre2<pcre2_code_free>>;

namespace {

constexpr size_t kMaxExpression = 64 << 10;
constexpr uint32_t kMatchLimit = 4'000'000;  // steps of backtracking in one match
constexpr uint32_t kHeapLimit = 64 << 10;    // KiB
constexpr size_t kJitStack = 1 << 20;
constexpr size_t kWindow = 256;  // bytes in which a match may begin, between two looks: 10 s at the limit of steps
constexpr uint32_t kMatchesBetweenLooks = 64;
constexpr double kSeconds = 5, kSecondsPerMebibyte = 4;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The matching state of one thread.
struct Scratch {
  std::unique_ptr<pcre2_match_data, FreePcre2<pcre2_match_data_free>> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, FreePcre2<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, FreePcre2<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(32 << 10, kJitStack, nullptr)};

  Scratch() {
    if (!data || !context || !stack) throw std::bad_alloc();
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimit);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

std::string message_of(int error) {
  unsigned char text[256] = "";
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

Code compile(std::string_view expression, uint32_t options, std::string_view written) {
  int error = 0;
  size_t offset = 0;
  std::unique_ptr<pcre2_compile_context, FreePcre2<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  Code code(pcre2_compile(reinterpret_cast<const unsigned char*>(expression.data()), expression.size(),
                          options | PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT, &error,
                          &offset, context.get()));
  if (!code) {
    std::string_view before = expression.substr(0, offset);
    throw Malformed{
        fmt::format("the regular expression `{}` is invalid after `{}`: {}", written, before, message_of(error))};
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // if this fails, matching is only slower
  return code;
}

}  // namespace

struct Pattern::Compiled {
  Code code;
  std::string literal;  // the text to find if there is no code
};

Pattern Pattern::regex(std::string_view expression) {
  if (expression.size() > kMaxExpression) {
    throw Malformed{fmt::format("a regular expression of {} bytes is too long", expression.size())};
  }
  std::string translated = from_oniguruma(expression);
  return Pattern(std::make_shared<Compiled>(Compiled{compile(translated, PCRE2_MULTILINE, expression), ""}));
}

Pattern Pattern::literal(std::string_view text) {
  if (text.empty()) return regex("");
  return Pattern(std::make_shared<Compiled>(Compiled{nullptr, std::string(text)}));
}

void Pattern::look_at_clock(Effort& effort, std::string_view text) {
  const double now = thread_seconds();
  if (effort.began < 0) effort.began = now;
  const double most = kSeconds + kSecondsPerMebibyte * static_cast<double>(text.size()) / (1 << 20);
  if (now - effort.began > most)
    throw InputError(
        "the tokenizer's regular expression cannot split a text of {} bytes within {:.0f} s of processor time.",
        text.size(), most);
}

bool Pattern::find(std::string_view text, size_t from, size_t& begin, size_t& end, Effort& effort) const {
  if (!compiled_->code) {
    begin = text.find(compiled_->literal, from);
    end = begin + compiled_->literal.size();
    return begin != std::string_view::npos;
  }
  thread_local Scratch scratch;
  auto subject = reinterpret_cast<const unsigned char*>(text.data() ? text.data() : "");
  auto match = [&](size_t start, uint32_t options) {
    return pcre2_match(compiled_->code.get(), subject, text.size(), start, options | PCRE2_NO_UTF_CHECK,
                       scratch.data.get(), scratch.context.get());
  };
  if (effort.matches++ % kMatchesBetweenLooks == 0) look_at_clock(effort, text);
  int result = PCRE2_ERROR_NOMATCH;
  // The limit of steps is one for each place where a match may begin, so the time is limited here.
  for (size_t start = from;;) {
    const size_t last = std::min(start + kWindow, text.size());
    pcre2_set_offset_limit(scratch.context.get(), last);
    result = match(start, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(start, PCRE2_NO_JIT);  // uses heap memory instead
    if (result != PCRE2_ERROR_NOMATCH) break;
    if (last == text.size()) return false;
    look_at_clock(effort, text);
    for (start = last; start < text.size() && (text[start] & 0xC0) == 0x80;) ++start;
  }
  if (result < 0) throw InputError("the tokenizer's regular expression cannot split a text: {}.", message_of(result));
  const size_t* places = pcre2_get_ovector_pointer(scratch.data.get());
  begin = std::max(places[0], from);  // \K can move it back
  end = std::max(places[1], begin);
  return true;
}

size_t Pattern::next_start(std::string_view text, size_t from) {
  return from < text.size() ? from + char_length(text, from) : from + 1;
}

}  // namespace trainer::data
