// Describes all operators of a program whose operators are registered when it, or the library LIBRARY, is loaded: NAME,
// OVERLOAD and description, each ended by a null. Usage: eager_operators [LIBRARY]
#include <dlfcn.h>

#include <cstdio>

#include "tests/operators/describe_operator.h"

int main(int argc, char** argv) {
  if (argc > 1 && dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const std::string text = trainer::describe_operator(*dispatcher.findOp(name));
    std::printf("%s%c%s%c%s%c", name.name.c_str(), 0, name.overload_name.c_str(), 0, text.c_str(), 0);
  }
}
