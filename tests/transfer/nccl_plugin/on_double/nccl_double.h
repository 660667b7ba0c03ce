#pragma once

#include <nccl.h>

#include <string>
#include <vector>

/// Test double of NCCL's non-blocking communicators, as NVIDIA documents them, for one rank without
/// peers. Records the order of calls and moves no data. Asynchronous calls end after two polls. As
/// in NCCL, a busy communicator rejects calls.
namespace weft::test {

struct NcclDouble {
  /// Calls in order, such as "init" or "broadcast", and misuse as "wrong: ...".
  std::vector<std::string> calls;
  int communicators = 0;  ///< Communicators not yet destroyed or aborted.
  int open_groups = 0;
  ncclResult_t next_call = ncclSuccess;   ///< Result of the next operation in a group.
  ncclResult_t next_state = ncclSuccess;  ///< Final state of the next asynchronous call.

  bool did(const std::string& call) const;
};
extern NcclDouble nccl_double;

}  // namespace weft::test
