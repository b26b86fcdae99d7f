// How the C library's malloc gets memory from the system, and when it gives it back.
#pragma once

#include <string>

namespace trainer {

// Note [Huge pages]
// Matrix products read weights with strides of a page or more, and each 4-KiB page takes a translation of its own; and
// memory that is requested from the system is cleared page by page. With pages of 2 MiB, measured on a quiet AMD EPYC
// (Zen 4), an update of t5-small takes 11 % less when every weight is trained, 8 % under FSDP on two ranks, and with
// LoRA as long as before. The programs are no larger. Most systems give such pages only to memory that asks for them
// (/sys/kernel/mm/transparent_hugepage/enabled: madvise). The C library asks for all of malloc's if an environment
// variable requests it when a program starts; shared weights ask by themselves.

// Note [Kept memory]
// Every update needs the memory of the one before. By default malloc gives much of it back when it is freed, and the
// system clears it again: a tenth of an update of GPT-2 in bf16. Here malloc keeps blocks of up to 128 MiB; larger ones
// would leave larger holes between those in use. Measured on a Zen 5, LoRA in bf16: LLaMA of 95M 602 -> 580 ms an
// update, GPT-2 14 updates 14.2 -> 11.3 s, and as much memory; every weight: t5-small 224 -> 206 ms an update with 9 %
// more memory, GPT-2 14 updates 37.6 -> 33.8 s with 3 % more, LLaMA 25.9 -> 25.2 s with 8 % more.

/// GLIBC_TUNABLES with ours added to those `given` by the user, whose own choices stay.
std::string with_malloc_tunables(std::string given);

/// Has the programs that this one starts use them.
void set_malloc_tunables();

}  // namespace trainer
