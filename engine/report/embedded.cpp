#include "engine/report/embedded.h"

// The assembler includes the files; CMake passes their paths and compiles this file again when they change.
#define TRAINER_EMBED(name, path)                                                       \
  __asm__(".section .rodata\n" #name                                                    \
          "_begin:\n"                                                                   \
          ".incbin \"" path "\"\n" #name "_end:\n.previous\n");                         \
  extern "C" {                                                                          \
  __attribute__((visibility("hidden"))) extern const char name##_begin[], name##_end[]; \
  }

TRAINER_EMBED(trainer_page_style, TRAINER_PAGE_STYLE)
TRAINER_EMBED(trainer_page_script, TRAINER_PAGE_SCRIPT)
#ifdef TRAINER_CHART_LIBRARY
TRAINER_EMBED(trainer_chart_library, TRAINER_CHART_LIBRARY)
#endif

namespace trainer::report {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

std::string_view chart_library() {
#ifdef TRAINER_CHART_LIBRARY
  return between(trainer_chart_library_begin, trainer_chart_library_end);
#else
  return {};
#endif
}

std::string_view page_style() {
  return between(trainer_page_style_begin, trainer_page_style_end);
}

std::string_view page_script() {
  return between(trainer_page_script_begin, trainer_page_script_end);
}

}  // namespace trainer::report
