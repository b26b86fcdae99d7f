// Ranks as separate processes, because tensor memory is counted per process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "engine/dist/shm_comm.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {

/// The results of `measure` in each of `ranks` processes; T is plain bytes. `folder` is an empty folder that they
/// share. `share_memory` false: behaves like ranks on different machines.
template <class T>
std::vector<T> in_processes(int ranks, bool share_memory,
                            const std::function<T(dist::Comm& comm, const std::string& folder)>& measure) {
  const TemporaryFolder folder;
  std::vector<pid_t> children;
  int pipes[2];
  EXPECT_EQ(pipe(pipes), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    at::set_num_threads(1);  // OpenMP's other threads, if a test before has started them, aren't in a forked process
    int code = 1;
    try {
      const auto store = c10::make_intrusive<c10d::FileStore>((folder.path() / "store").string(), ranks);
      const auto comm = ranks == 1 ? dist::solo_comm() : dist::cpu_comm(store, rank, ranks, share_memory);
      const T found = measure(*comm, folder.path().string());
      comm->barrier();
      if (write(pipes[1], &found, sizeof found) == sizeof found) code = 0;
    } catch (const std::exception& error) {
      fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    _exit(code);
  }
  close(pipes[1]);
  std::vector<T> all(ranks);
  for (T& one : all) EXPECT_EQ(read(pipes[0], &one, sizeof one), static_cast<ssize_t>(sizeof one));
  close(pipes[0]);
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  return all;
}

}  // namespace trainer::testing
