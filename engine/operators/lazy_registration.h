// libtorch's operators are registered when they are looked up for their first call, instead of when a program is
// loaded.
#pragma once

namespace trainer::operators {

// Note [Lazy registration]
// While a program is loaded, libtorch registers its 3,500 operators with 16,000 kernels: each registration parses a
// schema, infers another, compares the two, and computes parts of a table with 150 entries for kernels. That took each
// rank 0.1 s and 43 MB, and training a T5 with LoRA calls fewer than 100 operators. Therefore the functions by which
// libtorch registers are defined here as well: libtorch calls its exported functions through the dynamic linker, which
// finds the program's first. Ours only keep what is registered, by the operator's name, until the operator is looked
// up; then libtorch's own are called, in the same order. Once a program is loaded, registrations take effect at once. A
// libtorch that called its functions otherwise would load as it always did. tests/operators compares all operators with
// those of a program without this.

/// While one exists, what is registered is kept, too: for a library that dlopen loads. It must never be unloaded.
class KeepRegistrations {
 public:
  KeepRegistrations();
  ~KeepRegistrations();
  KeepRegistrations(const KeepRegistrations&) = delete;
  KeepRegistrations& operator=(const KeepRegistrations&) = delete;
};

}  // namespace trainer::operators
