// Redirects calls between shared libraries.
#pragma once

#include <initializer_list>

namespace trainer::dist::tls {

struct Redirection {
  const char* name;  // of a function with C linkage in another library: "connect"
  void* to;
};

/// From now on, the library that contains the address `inside` calls `to` wherever it called the function `name`. Calls
/// of other libraries, and of this program, stay as they are. (The entries of the library's jump slots are replaced:
/// the dynamic section of the System V ABI.) Errors: MachineError when the library calls no function of one of the
/// names; then nothing is redirected.
void redirect_calls(const void* inside, std::initializer_list<Redirection> redirections);

}  // namespace trainer::dist::tls
