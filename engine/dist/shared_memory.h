#pragma once

#include <string>

#include "engine/base/file_descriptor.h"
#include "engine/dist/comm.h"

namespace trainer::dist {

/// Whether ranks of one machine may share memory. TRAINER_SHARE_MEMORY=0 in the environment disables it: ranks then
/// send each other everything, as on different machines.
bool may_share_memory();

/// Where other processes of this user find anonymous memory while this process keeps its descriptor open.
std::string path_for_others(const FileDescriptor& memory);
/// None, with errno, if it can't be opened.
FileDescriptor open_memory(const std::string& path);

/// Collective. Anonymous memory of rank 0 that the other ranks of this machine map too; it leaves nothing behind,
/// however the ranks end. Undefined (on every rank) when one of them cannot map it. Each rank counts an equal part of
/// the bytes. Errors: MachineError when there is not enough memory.
at::Tensor map_shared_memory(Comm& comm, int64_t bytes);

/// Collective. comm.shared_memory() for `count` values in fp32.
at::Tensor shared_floats(Comm& comm, int64_t count);

/// True when this run has one machine, so that its ranks can share memory. Set by the supervisor.
bool ranks_share_a_machine();

}  // namespace trainer::dist
